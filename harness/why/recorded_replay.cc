#include "harness/why/recorded_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ranges>
#include <utility>

#include "allocators/caching/sizes.h"
#include "allocators/caching/snapshot.h"
#include "harness/why/late_streams.h"

namespace allocmark {
namespace {

using caching::BlockState;
using caching::SegmentInfo;

bool is_request(SnapshotAction action) {
  return action == SnapshotAction::Alloc || action == SnapshotAction::Oom ||
         action == SnapshotAction::FreeRequested;
}

bool is_release(SnapshotAction action) {
  return action == SnapshotAction::SegmentFree || action == SnapshotAction::SegmentUnmap;
}

bool is_growth(SnapshotAction action) {
  return action == SnapshotAction::SegmentAlloc || action == SnapshotAction::SegmentMap;
}

class Replay {
 public:
  Replay(const DeviceHistory& history, const RecordedSettings& settings)
      : history_(history), settings_(settings), late_(history.late_frees()) {}

  // A free block that the replay used and the recorded allocator did not have, or had smaller.
  struct Spurious {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t wanted_bytes = 0;  // rounded
    std::uint64_t entry_index = 0;
  };

  // To the end, or to the first placement that differs.
  [[nodiscard]] SelfCheck run(const StartHeap& heap, bool to_end);
  [[nodiscard]] const std::optional<Spurious>& spurious() const { return spurious_; }

 private:
  void take_over(const StartHeap& heap);
  void take_over_pool(std::uint32_t pool, const std::vector<SegmentInfo>& segments);
  void note_pools();
  [[nodiscard]] caching::CachingAllocator& allocator(std::uint32_t pool);
  [[nodiscard]] std::uint32_t pool_of(const SnapshotEntry& entry) const;
  void empty_caches(std::uint64_t begin, std::uint64_t end, std::optional<std::uint32_t> but);
  void request(std::uint64_t begin, std::uint64_t index);
  void give_back(std::uint64_t index);
  void fail_as_recorded(std::uint64_t index, std::uint32_t pool);
  [[nodiscard]] std::uint64_t reserved_bytes() const;
  void compare(std::uint64_t index, std::uint32_t pool, std::uint64_t address);
  void note_difference(std::uint64_t index, std::string text);
  [[nodiscard]] bool final_heap_equal() const;
  [[nodiscard]] RecordedDriver::Operation operation(std::uint64_t begin, std::uint64_t index,
                                                    std::uint32_t pool);
  [[nodiscard]] caching::Stream stream_of(const SnapshotEntry& entry) const {
    return history_.snapshot().streams[entry.stream];
  }

  struct Live {
    std::uint64_t address = 0;  // where the replay put it
    std::uint32_t pool = 0;
    std::uint32_t stack = kNoStack;
    std::uint64_t requested_bytes = 0;
  };

  const DeviceHistory& history_;
  const RecordedSettings& settings_;
  LateStreams late_;
  RecordedDriver driver_;
  std::map<std::uint32_t, std::unique_ptr<caching::CachingAllocator>> allocators_;
  std::unordered_map<std::uint64_t, Live> live_;             // by recorded address
  std::unordered_map<std::uint64_t, std::uint32_t> owners_;  // segment or range -> pool
  std::map<std::uint64_t, std::pair<std::uint64_t, std::uint32_t>> pool_areas_;  // end and pool
  std::uint64_t live_bytes_ = 0;
  SelfCheck check_;
  std::optional<Spurious> spurious_;
};

caching::CachingAllocator& Replay::allocator(std::uint32_t pool) {
  std::unique_ptr<caching::CachingAllocator>& made = allocators_[pool];
  if (made == nullptr)
    made = std::make_unique<caching::CachingAllocator>(driver_, settings_.settings);
  return *made;
}

// Before PyTorch 2.12 entries do not name their pool; the final segments do.
void Replay::note_pools() {
  for (const SnapshotSegment& segment : history_.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) == history_.device() && segment.pool != 0)
      pool_areas_[segment.address] = {segment.address + segment.size_bytes, segment.pool};
  }
}

std::uint32_t Replay::pool_of(const SnapshotEntry& entry) const {
  if (entry.has_pool) return static_cast<std::uint32_t>(entry.pool);
  const auto after = pool_areas_.upper_bound(entry.address);
  if (entry.action == SnapshotAction::Oom || after == pool_areas_.begin()) return 0;
  const auto& [end, pool] = std::prev(after)->second;
  return entry.address < end ? pool : 0;
}

// One expandable segment after the other, since each has a reservation of its own.
void Replay::take_over_pool(std::uint32_t pool, const std::vector<SegmentInfo>& segments) {
  std::map<std::pair<caching::Stream, caching::PoolKind>, std::vector<SegmentInfo>> expandable;
  std::vector<SegmentInfo> plain;
  for (SegmentInfo segment : segments) {
    segment.stream = history_.snapshot().streams[segment.stream];
    owners_[segment.address] = pool;
    if (segment.expandable) {
      expandable[{segment.stream, segment.kind}].push_back(segment);
    } else {
      driver_.know_segment({segment.address, segment.total_bytes});
      plain.push_back(segment);
    }
  }
  allocator(pool).adopt(plain);
  for (const auto& [key, ranges] : expandable) {
    const std::uint64_t page_bytes =
        caching::page_size(key.second == caching::PoolKind::Small, settings_.settings);
    const std::uint64_t base = ranges.front().address;
    const bool whole_pages = std::ranges::all_of(ranges, [&](const SegmentInfo& range) {
      return range.total_bytes % page_bytes == 0 && (range.address - base) % page_bytes == 0;
    });
    if (!whole_pages) {
      check_.doubts.push_back("ranges of an expandable segment are no whole pages");
      continue;
    }
    driver_.begin_seeding(base);
    allocator(pool).adopt(ranges);
    driver_.end_seeding();
  }
}

void Replay::take_over(const StartHeap& heap) {
  for (const auto& [pool, segments] : heap.pools) take_over_pool(pool, segments);
  std::unordered_map<std::uint64_t, std::uint64_t> completed;
  for (std::uint64_t i = 0; i < history_.size(); ++i) {
    if (history_[i].action == SnapshotAction::FreeCompleted)
      completed.try_emplace(history_[i].address, i);
  }
  std::size_t waiting_count = 0;
  for (const auto& [pool, segments] : heap.pools) {
    for (const SegmentInfo& segment : segments) {
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::Inactive) continue;
        live_[block.address] = {
            .address = block.address, .pool = pool, .requested_bytes = block.requested_bytes};
        live_bytes_ += block.requested_bytes;
        if (block.state == BlockState::ActiveAllocated) continue;
        // Given back before the history began; another stream still uses it.
        const auto found = completed.find(block.address);
        driver_.expect_event(found == completed.end() ? history_.size() : found->second);
        const caching::Stream stream =
            LateStreams::handle((std::size_t{1} << 20) + waiting_count++);
        static_cast<void>(allocator(pool).record_stream(block.address, stream));
        static_cast<void>(allocator(pool).deallocate(block.address));
        live_.erase(block.address);
        live_bytes_ -= block.requested_bytes;
      }
    }
  }
  for (const SnapshotSegment& segment : history_.snapshot().segments) {
    for (std::uint64_t i = 0; i < segment.block_count; ++i) {
      const SnapshotBlock& block = history_.snapshot().blocks[segment.first_block + i];
      const auto found = live_.find(block.address);
      if (found != live_.end()) found->second.stack = block.stack;
    }
  }
}

RecordedDriver::Operation Replay::operation(std::uint64_t begin, std::uint64_t index,
                                            std::uint32_t pool) {
  RecordedDriver::Operation operation{.failed = history_[index].action == SnapshotAction::Oom,
                                      .entry_index = index};
  for (std::uint64_t i = begin; i < index; ++i) {
    const SnapshotEntry& entry = history_[i];
    if (is_growth(entry.action)) owners_[entry.address] = pool;
    if (entry.action == SnapshotAction::SegmentAlloc)
      operation.segments.push_back({entry.address, entry.size_bytes});
    if (entry.action == SnapshotAction::SegmentMap)
      operation.mappings.push_back({entry.address, entry.size_bytes});
    if (!is_release(entry.action)) continue;
    const auto owner = owners_.find(entry.address);
    if (owner == owners_.end() || owner->second == pool ||
        entry.action == SnapshotAction::SegmentUnmap)
      operation.released_bytes += entry.size_bytes;
    // Blocks that passed in this operation did so when the whole cache was given back.
    operation.entry_index = begin;
  }
  return operation;
}

// Calls empty_cache on the pools whose segments were given back in these entries.
void Replay::empty_caches(std::uint64_t begin, std::uint64_t end,
                          std::optional<std::uint32_t> but) {
  std::vector<std::uint32_t> pools;
  for (std::uint64_t i = begin; i < end; ++i) {
    if (!is_release(history_[i].action)) continue;
    const auto owner = owners_.find(history_[i].address);
    const std::uint32_t pool = owner == owners_.end() ? 0 : owner->second;
    if (pool != but && std::ranges::find(pools, pool) == pools.end()) pools.push_back(pool);
  }
  for (const std::uint32_t pool : pools) {
    driver_.begin({.entry_index = end});
    allocator(pool).empty_cache();
  }
}

void Replay::note_difference(std::uint64_t index, std::string text) {
  if (!check_.first_difference.empty()) return;
  check_.first_difference = fmt::format("entry {}: {}", index, text);
}

void Replay::compare(std::uint64_t index, std::uint32_t pool, std::uint64_t address) {
  const SnapshotEntry& entry = history_[index];
  ++check_.placement_count;
  if (address == entry.address) {
    ++check_.equal_count;
    return;
  }
  const caching::Block* block = allocator(pool).heap().allocated.find(address);
  if (!spurious_ && block != nullptr) {
    const bool has_rest = block->next != nullptr && block->next->mapped && block->next->is_unused();
    spurious_ = {.address = address,
                 .size_bytes = block->size_bytes + (has_rest ? block->next->size_bytes : 0),
                 .wanted_bytes = caching::round_request(entry.size_bytes, settings_.settings),
                 .entry_index = index};
  }
  note_difference(index, fmt::format("{} bytes at {:#x}; the replay puts them at {:#x}",
                                     entry.size_bytes + 0, entry.address + 0, address));
}

std::uint64_t Replay::reserved_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [pool, made] : allocators_) bytes += made->heap().reserved_bytes();
  return bytes;
}

void Replay::fail_as_recorded(std::uint64_t index, std::uint32_t pool) {
  const SnapshotEntry& entry = history_[index];
  ++check_.oom_count;
  const std::uint64_t segment_bytes = caching::segment_size(entry.size_bytes, settings_.settings);
  check_.refused_bytes_min = std::min(check_.refused_bytes_min, reserved_bytes() + segment_bytes);
  check_.last_oom = OomPicture{.entry_index = index,
                               .size_bytes = entry.size_bytes,
                               .stream = static_cast<std::uint32_t>(entry.stream),
                               .pool = pool,
                               .device_free_bytes = entry.address,
                               .stack = entry.stack};
  for (const auto& [each, made] : allocators_)
    check_.last_oom->pools[each] = caching::take_snapshot(*made);
  for (const auto& [recorded, block] : live_) check_.last_oom->stacks[block.address] = block.stack;
}

// The entries [begin, index) are what the allocator did for the request at `index`.
void Replay::request(std::uint64_t begin, std::uint64_t index) {
  const SnapshotEntry& entry = history_[index];
  const bool fails = entry.action == SnapshotAction::Oom;
  const std::uint32_t pool = pool_of(entry);
  const bool grows =
      fails || std::ranges::any_of(std::views::iota(begin, index),
                                   [&](std::uint64_t i) { return is_growth(history_[i].action); });
  // Where a block would have served the request, or no new memory was taken, it was the program
  // that emptied the cache.
  const bool by_request = grows && !allocator(pool).has_cached(entry.size_bytes, stream_of(entry));
  empty_caches(begin, index, by_request ? std::optional(pool) : std::nullopt);
  RecordedDriver::Operation expected = operation(begin, index, pool);
  if (!by_request) expected.released_bytes = 0;
  if (!by_request) expected.entry_index = index;
  driver_.begin(std::move(expected));
  caching::CachingAllocator& allocator = this->allocator(pool);
  // Without the limit it is not known what garbage collection looks for.
  if (settings_.settings.garbage_collection_threshold > 0) {
    for (std::uint64_t i = begin; i < index; ++i) {
      if (history_[i].action == SnapshotAction::SegmentFree)
        static_cast<void>(allocator.release_free_segment(history_[i].address));
    }
  }
  std::optional<std::uint64_t> address = allocator.allocate(entry.size_bytes, stream_of(entry));
  if (!address && !fails) {
    driver_.stop_waiting();
    address = allocator.allocate(entry.size_bytes, stream_of(entry));
  }
  check_.reserved_bytes_peak = std::max(check_.reserved_bytes_peak, reserved_bytes());
  if (fails) {
    if (address) note_difference(index, "a request failed; the replay serves it");
    fail_as_recorded(index, pool);
    // Blocks that waited for a stream became free while the request failed, and were not looked at
    // again (PyTorch's issue 189504).
    if (!address) address = allocator.allocate(entry.size_bytes, stream_of(entry));
    check_.last_oom->retry_serves = address.has_value();
    if (address) static_cast<void>(allocator.deallocate(*address));
    return;
  }
  compare(index, pool, address.value_or(0));
  if (!address) return;
  live_[entry.address] = {
      .address = *address, .pool = pool, .stack = entry.stack, .requested_bytes = entry.size_bytes};
  live_bytes_ += entry.size_bytes;
  check_.live_bytes_peak = std::max(check_.live_bytes_peak, live_bytes_);
}

void Replay::give_back(std::uint64_t index) {
  const auto found = live_.find(history_[index].address);
  if (found == live_.end()) return note_difference(index, "a free of a block that is not live");
  const Live block = found->second;
  live_.erase(found);
  live_bytes_ -= block.requested_bytes;
  if (const LateStreams::Late* late = late_.find(index)) {
    driver_.expect_event(late->completed_index);
    static_cast<void>(
        allocator(block.pool).record_stream(block.address, LateStreams::handle(late->stream)));
  }
  static_cast<void>(allocator(block.pool).deallocate(block.address));
}

// Whether the blocks that their owners hold stand where the snapshot shows them, and the segments.
bool Replay::final_heap_equal() const {
  std::map<std::uint64_t, std::uint64_t> recorded, replayed;  // blocks in use -> bytes
  for (const SnapshotSegment& segment : history_.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) != history_.device()) continue;
    for (std::uint64_t i = 0; i < segment.block_count; ++i) {
      const SnapshotBlock& block = history_.snapshot().blocks[segment.first_block + i];
      if (block.state == SnapshotBlockState::Allocated) recorded[block.address] = block.size_bytes;
    }
  }
  for (const auto& [pool, made] : allocators_) {
    for (const SegmentInfo& segment : caching::take_snapshot(*made)) {
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::ActiveAllocated) replayed[block.address] = block.size_bytes;
      }
    }
  }
  return recorded == replayed;
}

SelfCheck Replay::run(const StartHeap& heap, bool to_end) {
  note_pools();
  check_.doubts = heap.doubts;
  take_over(heap);
  check_.live_bytes_peak = live_bytes_;
  check_.reserved_bytes_peak = heap.reserved_bytes;
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < history_.size(); ++i) {
    const SnapshotEntry& entry = history_[i];
    if (!is_request(entry.action)) continue;
    if (entry.action == SnapshotAction::FreeRequested) {
      empty_caches(begin, i, std::nullopt);
      give_back(i);
    } else {
      request(begin, i);
    }
    begin = i + 1;
    if (!to_end && !check_.first_difference.empty()) return std::move(check_);
  }
  empty_caches(begin, history_.size(), std::nullopt);
  check_.final_heap_equal = final_heap_equal();
  return std::move(check_);
}

// Finds the block that may end later than it was thought to; false where there is none.
bool enlarge(const StartHeap& heap, const caching::Settings& settings,
             const Replay::Spurious& spurious, KnownExtents* known) {
  if (settings.expandable_segments || spurious.size_bytes < spurious.wanted_bytes) return false;
  const std::uint64_t more_bytes =
      spurious.size_bytes - spurious.wanted_bytes + caching::kBlockSizeMin;
  for (const auto& [pool, segments] : heap.pools) {
    for (const SegmentInfo& segment : segments) {
      if (segment.kind == caching::PoolKind::Small || spurious.address < segment.address ||
          spurious.address >= segment.address + segment.total_bytes)
        continue;
      for (const caching::BlockInfo& block : segment.blocks) {
        if (block.state == BlockState::Inactive ||
            block.address + block.size_bytes != spurious.address)
          continue;
        const std::uint64_t size_bytes = block.size_bytes + more_bytes;
        const std::uint64_t needed_bytes = caching::round_request(block.requested_bytes, settings);
        if (size_bytes > needed_bytes + caching::kSmallSizeMax) return false;
        (*known)[block.address] = size_bytes;
        return true;
      }
    }
  }
  return false;
}

}  // namespace

// A block of the large pool may have up to 1 MiB beyond its request, and the history does not say
// how much. Where the replay puts a request behind such a block and PyTorch did not, the free
// memory there was smaller: the block gets the difference, and the replay begins again.
SelfCheck check_recording(const DeviceHistory& history, const RecordedSettings& settings) {
  constexpr std::uint64_t kEntriesMax =
      20'000'000;  // replayed in all while the heap is being found
  KnownExtents known;
  std::uint64_t replayed = 0;
  while (replayed < kEntriesMax) {
    const StartHeap heap = rebuild_start_heap(history, settings.settings, known);
    Replay replay(history, settings);
    static_cast<void>(replay.run(heap, false));
    if (!replay.spurious() || !enlarge(heap, settings.settings, *replay.spurious(), &known)) break;
    replayed += replay.spurious()->entry_index + 1;
  }
  return Replay(history, settings).run(rebuild_start_heap(history, settings.settings, known), true);
}

std::string to_text(const SelfCheck& check) {
  if (check.placement_count == 0)
    return "self-check: the history has no request that was served; nothing could be compared\n";
  if (check.complete()) {
    return fmt::format(
        "self-check: 100 % of {} placements equal: the rest of this answer can be trusted\n",
        check.placement_count);
  }
  // Rounded down: 100 % is said only where all are equal.
  const double percent = std::floor(1000.0 * static_cast<double>(check.equal_count) /
                                    static_cast<double>(check.placement_count)) /
                         10;
  std::string text = fmt::format(
      "self-check: {:.1f} % of {} placements equal: the replay is not the recorded allocator, so "
      "what follows is an estimate\n",
      check.equal_count == check.placement_count ? 100.0 : percent, check.placement_count);
  if (!check.first_difference.empty())
    text += fmt::format("  first difference: {}\n", check.first_difference);
  if (!check.final_heap_equal)
    text += "  the blocks in use at the end stand elsewhere than the snapshot shows\n";
  for (const std::string& doubt : check.doubts) text += fmt::format("  {}\n", doubt);
  return text;
}

}  // namespace allocmark

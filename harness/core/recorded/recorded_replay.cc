#include "harness/core/recorded/recorded_replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <utility>

#include "allocators/caching/sizes.h"
#include "allocators/caching/snapshot.h"

namespace allocmark {
namespace {

using caching::BlockState;
using caching::SegmentInfo;

// Of what is no request.
constexpr std::uint32_t kNoPool = ~std::uint32_t{0};

}  // namespace

// One expandable segment after the other, since each has a reservation of its own.
void RecordedReplay::take_over_pool(std::uint32_t pool, const std::vector<SegmentInfo>& segments) {
  std::map<std::pair<caching::Stream, caching::PoolKind>, std::vector<SegmentInfo>> expandable;
  std::vector<SegmentInfo> plain;
  for (SegmentInfo segment : segments) {
    segment.stream = history_.snapshot().streams[segment.stream];
    owners_[segment.address] = pool;
    areas_.add(segment.address, segment.total_bytes, pool);
    if (segment.expandable) {
      expandable[{segment.stream, segment.kind}].push_back(segment);
    } else {
      driver_.know_segment({segment.address, segment.total_bytes});
      plain.push_back(segment);
    }
  }
  allocator_.adopt(pool, plain);
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
    allocator_.adopt(pool, ranges);
    driver_.end_seeding();
  }
}

void RecordedReplay::take_over(const StartHeap& heap) {
  for (const auto& [pool, segments] : heap.pools) take_over_pool(pool, segments);
  static_cast<void>(driver_.take_freed());
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
        live_[block.address] = {.address = block.address, .requested_bytes = block.requested_bytes};
        live_bytes_ += block.requested_bytes;
        if (block.state == BlockState::ActiveAllocated) continue;
        // Given back before the history began; another stream still uses it.
        const auto found = completed.find(block.address);
        driver_.expect_event(found == completed.end() ? history_.size() : found->second);
        const caching::Stream stream =
            LateStreams::handle((std::size_t{1} << 20) + waiting_count++);
        static_cast<void>(allocator_.get().record_stream(block.address, stream));
        static_cast<void>(allocator_.get().deallocate(block.address));
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

RecordedDriver::Operation RecordedReplay::operation(std::uint64_t begin,
                                                    std::uint64_t index) const {
  // Blocks that became free while a request failed were not looked at again.
  const bool fails = history_[index].action == SnapshotAction::Oom;
  RecordedDriver::Operation operation{.failed = fails, .entry_index = fails ? begin : index};
  for (std::uint64_t i = begin; i < index; ++i) {
    const SnapshotEntry& entry = history_[i];
    if (entry.action == SnapshotAction::SegmentAlloc)
      operation.segments.push_back({entry.address, entry.size_bytes});
    if (entry.action == SnapshotAction::SegmentMap)
      operation.mappings.push_back({entry.address, entry.size_bytes});
    // Blocks that passed in this operation did so when the whole cache was given back.
    if (is_release(entry.action)) operation.entry_index = begin;
  }
  return operation;
}

RecordedReplay::Released RecordedReplay::released(std::uint64_t begin, std::uint64_t end) const {
  Released bytes;
  for (std::uint64_t i = begin; i < end; ++i) {
    const SnapshotEntry& entry = history_[i];
    if (!is_release(entry.action)) continue;
    const auto owner = owners_.find(entry.address);
    const std::uint32_t pool = entry.has_pool           ? static_cast<std::uint32_t>(entry.pool)
                               : owner == owners_.end() ? areas_.pool_at(entry.address)
                                                        : owner->second;
    bytes[pool] += entry.size_bytes;
  }
  return bytes;
}

// The program emptied the caches: of all pools, or of those that gave something back alone.
void RecordedReplay::empty_caches(const Released& released, std::uint64_t end) {
  if (released.empty()) return;
  CacheReturn story{.before = allocator_.moment(end)};
  for (const auto& [pool, bytes] : released) {
    driver_.begin({.entry_index = end});
    if (pool == 0) {
      allocator_.get().empty_cache();
      break;
    }
    allocator_.empty_pool(pool);
  }
  story.after = allocator_.moment(end);
  check_.story.add_return(std::move(story));
}

// Frees strand memory, so before anything else happens is when most of it may be.
void RecordedReplay::note_stranded(std::uint64_t index) {
  const caching::Heap& heap = allocator_.get().heap();
  const std::uint64_t bytes = heap.private_reserved_bytes - heap.private_active_bytes;
  if (bytes <= stranded_bytes_max_) return;
  stranded_bytes_max_ = bytes;
  check_.story.most_stranded = allocator_.moment(index);
}

// What went back before a request of that pool. Private pools do so when their use has ended, and
// theirs has not if the request is for them. Returns what goes back within the request itself.
std::uint64_t RecordedReplay::settle(const Released& released, std::uint64_t end,
                                     std::uint32_t pool, bool by_request) {
  Released others = released;
  others.erase(pool);
  for (const auto& [other, bytes] : others) allocator_.end_use(other);
  const auto own = released.find(pool);
  const std::uint64_t own_bytes = own == released.end() ? 0 : own->second;
  if (by_request && pool == 0 && own_bytes > 0) {
    std::uint64_t bytes = own_bytes;
    for (const auto& [other, other_bytes] : others) bytes += other_bytes;
    return bytes;
  }
  // A private pool that is used gives back only for a request of its own.
  empty_caches(by_request || pool != 0 ? others : released, end);
  return by_request ? own_bytes : 0;
}

void RecordedReplay::note_difference(std::uint64_t index, std::string text) {
  if (!check_.first_difference.empty()) return;
  check_.first_difference = fmt::format("entry {}: {}", index, text);
  difference_index_ = index;
}

void RecordedReplay::compare(std::uint64_t index, std::uint64_t address) {
  const SnapshotEntry& entry = history_[index];
  ++check_.placement_count;
  if (address == entry.address) {
    ++check_.equal_count;
    return;
  }
  const caching::Block* block = allocator_.get().heap().allocated.find(address);
  if (!spurious_ && block != nullptr) {
    const bool has_rest = block->next != nullptr && block->next->mapped && block->next->is_unused();
    spurious_ = {.address = address,
                 .size_bytes = block->size_bytes + (has_rest ? block->next->size_bytes : 0),
                 .wanted_bytes = caching::round_request(entry.size_bytes, settings_.settings),
                 .entry_index = index,
                 .growth_index = areas_.growth_at(entry.address),
                 .chosen_growth_index = areas_.growth_at(address)};
  }
  note_difference(index, fmt::format("{} bytes at {:#x}; the replay puts them at {:#x}",
                                     entry.size_bytes + 0, entry.address + 0, address));
}

std::uint64_t RecordedReplay::reserved_bytes() const {
  return allocator_.get().heap().reserved_bytes();
}

void RecordedReplay::fail_as_recorded(std::uint64_t index, std::uint32_t pool) {
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
  check_.last_oom->pools = allocator_.snapshot();
  for (const auto& [recorded, block] : live_) check_.last_oom->stacks[block.address] = block.stack;
}

// The entries [begin, index) are what the allocator did for the request at `index`.
void RecordedReplay::request(std::uint64_t begin, std::uint64_t index) {
  const SnapshotEntry& entry = history_[index];
  const bool fails = entry.action == SnapshotAction::Oom;
  const Released gone = released(begin, index);
  const std::uint32_t pool = areas_.take(begin, index);
  for (std::uint64_t i = begin; i < index; ++i) {
    if (is_growth(history_[i].action)) owners_[history_[i].address] = pool;
  }
  const bool grows =
      fails || std::ranges::any_of(std::views::iota(begin, index),
                                   [&](std::uint64_t i) { return is_growth(history_[i].action); });
  // Where a block would have served the request, or no new memory was taken, it was the program
  // that emptied the cache.
  const bool by_request = grows && !allocator_.has_cached(pool, entry.size_bytes, stream_of(entry));
  const std::uint64_t gone_bytes = settle(gone, index, pool, by_request);
  RecordedDriver::Operation expected = operation(begin, index);
  expected.released_bytes = gone_bytes;
  if (!by_request) expected.entry_index = index;
  driver_.begin(std::move(expected));
  caching::CachingAllocator& allocator = allocator_.get();
  // Without the limit it is not known what garbage collection looks for.
  if (settings_.settings.garbage_collection_threshold > 0) {
    for (std::uint64_t i = begin; i < index; ++i) {
      if (history_[i].action == SnapshotAction::SegmentFree)
        static_cast<void>(allocator.release_free_segment(history_[i].address));
    }
  }
  const auto ask = [&] { return allocator_.allocate(pool, entry.size_bytes, stream_of(entry)); };
  // A request that failed and gave nothing back was one of a graph that was captured.
  const bool captured = fails && gone.empty();
  if (captured) allocator.begin_capture(stream_of(entry));
  std::optional<std::uint64_t> address = ask();
  if (captured) allocator.end_capture(stream_of(entry));
  if (!address && !fails) {
    driver_.stop_waiting();
    address = ask();
  }
  check_.reserved_bytes_peak = std::max(check_.reserved_bytes_peak, reserved_bytes());
  if (fails) {
    served_failed_ |= address && check_.first_difference.empty();
    if (address) note_difference(index, "a request failed; the replay serves it");
    fail_as_recorded(index, pool);
    // Blocks that waited for a stream became free while the request failed, and were not looked at
    // again (PyTorch's issue 189504).
    if (!address) address = ask();
    check_.last_oom->retry_serves = address.has_value();
    if (address) static_cast<void>(allocator.deallocate(*address));
    return;
  }
  compare(index, address.value_or(0));
  if (address) keep(index, *address);
}

void RecordedReplay::keep(std::uint64_t index, std::uint64_t address) {
  const SnapshotEntry& entry = history_[index];
  live_[entry.address] = {
      .address = address, .stack = entry.stack, .requested_bytes = entry.size_bytes};
  live_bytes_ += entry.size_bytes;
  check_.live_bytes_peak = std::max(check_.live_bytes_peak, live_bytes_);
}

// A block of a pool that is put back as it was at a checkpoint: nothing decides where it goes.
void RecordedReplay::put_back(std::uint64_t index) {
  const SnapshotEntry& entry = history_[index];
  const std::uint32_t pool = areas_.pool_at(entry.address);
  driver_.begin({.entry_index = index});
  const bool put = allocator_.restore_block(pool, entry.address, entry.size_bytes);
  ++check_.restored_count;
  compare(index, put ? entry.address : 0);
  if (put) keep(index, entry.address);
}

void RecordedReplay::give_back(std::uint64_t index) {
  const auto found = live_.find(history_[index].address);
  if (found == live_.end()) return note_difference(index, "a free of a block that is not live");
  const Live block = found->second;
  live_.erase(found);
  live_bytes_ -= block.requested_bytes;
  if (const LateStreams::Late* late = late_.find(index)) {
    driver_.expect_event(late->completed_index);
    static_cast<void>(
        allocator_.get().record_stream(block.address, LateStreams::handle(late->stream)));
  }
  static_cast<void>(allocator_.get().deallocate(block.address));
}

// Whether the blocks that their owners hold stand where the snapshot shows them, and the segments.
bool RecordedReplay::final_heap_equal() const {
  std::map<std::uint64_t, std::uint64_t> recorded, replayed;  // blocks in use -> bytes
  for (const SnapshotSegment& segment : history_.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) != history_.device()) continue;
    for (std::uint64_t i = 0; i < segment.block_count; ++i) {
      const SnapshotBlock& block = history_.snapshot().blocks[segment.first_block + i];
      if (block.state == SnapshotBlockState::Allocated) recorded[block.address] = block.size_bytes;
    }
  }
  for (const SegmentInfo& segment : caching::take_snapshot(allocator_.get())) {
    for (const caching::BlockInfo& block : segment.blocks) {
      if (block.state == BlockState::ActiveAllocated) replayed[block.address] = block.size_bytes;
    }
  }
  return recorded == replayed;
}

// Whether the replay has as much of the device as PyTorch had. Where it gave back what PyTorch
// kept, either that memory was a private pool's, or what PyTorch gave back was, and that pool's
// alone.
void RecordedReplay::compare_reserved(std::uint64_t begin, std::uint64_t index) {
  std::map<std::uint64_t, std::uint64_t> gone;  // address -> end
  for (std::uint64_t i = begin; i <= index; ++i) {
    const SnapshotEntry& entry = history_[i];
    if (is_growth(entry.action)) recorded_bytes_ += entry.size_bytes;
    if (!is_release(entry.action)) continue;
    recorded_bytes_ -= entry.size_bytes;
    gone[entry.address] = entry.address + entry.size_bytes;
  }
  const std::vector<std::uint64_t> freed = driver_.take_freed();
  if (reserved_bytes() == recorded_bytes_) return;
  note_difference(index, fmt::format("PyTorch had {} bytes of the device; the replay has {}",
                                     recorded_bytes_, reserved_bytes()));
  if (spurious_) return;
  for (const std::uint64_t address : freed) {
    const auto after = gone.upper_bound(address);
    if (after != gone.begin() && address < std::prev(after)->second) continue;
    spurious_ = {.address = address,
                 .wanted_bytes = 1,
                 .entry_index = index,
                 .growth_index = areas_.growth_at(address),
                 .chosen_growth_index = kNoGrowth};
    for (const auto& [released, end] : gone) {
      const std::uint64_t growth = areas_.growth_at(released);
      if (growth != kNoGrowth) spurious_->given_back.push_back(growth);
    }
    return;
  }
}

SelfCheck RecordedReplay::run(const StartHeap& heap, bool to_end) {
  check_.doubts = heap.doubts;
  take_over(heap);
  check_.live_bytes_peak = live_bytes_;
  check_.reserved_bytes_peak = heap.reserved_bytes;
  std::uint64_t begin = 0;
  recorded_bytes_ = heap.reserved_bytes;
  const std::uint64_t sample_step = history_.size() / PoolStory::kSampleCountMax + 1;
  for (std::uint64_t i = 0; i < history_.size(); ++i) {
    const SnapshotEntry& entry = history_[i];
    if (i % sample_step == 0) check_.story.samples.push_back(allocator_.sample(i));
    if (!is_request(entry.action)) continue;
    if (begin < i || entry.action != SnapshotAction::FreeRequested) note_stranded(begin);
    if (entry.action == SnapshotAction::FreeRequested) {
      static_cast<void>(settle(released(begin, i), i, kNoPool, false));
      give_back(i);
    } else if (restores_.find(i) != nullptr) {
      put_back(i);
    } else {
      request(begin, i);
    }
    compare_reserved(begin, i);
    begin = i + 1;
    if (!to_end && !check_.first_difference.empty()) return std::move(check_);
  }
  note_stranded(begin);
  static_cast<void>(settle(released(begin, history_.size()), history_.size(), kNoPool, false));
  check_.story.end = allocator_.moment(history_.size());
  check_.story.samples.push_back(allocator_.sample(history_.size()));
  check_.final_heap_equal = final_heap_equal();
  if (driver_.surprise_count() > 0) {
    check_.doubts.push_back(
        fmt::format("the replay took memory from the device {} times where PyTorch did not",
                    driver_.surprise_count()));
  }
  return std::move(check_);
}

}  // namespace allocmark

#include "harness/tools/export/caching_recorder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "allocators/caching/caching.h"
#include "allocators/caching/snapshot.h"
#include "base/error.h"
#include "harness/core/recorded/card_driver.h"
#include "harness/core/replay/replay.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kTimeFirstUs = 1'700'000'000'000'000;
constexpr std::uint64_t kTimeStepUs = 10;  // traces have no clock: one event, so many microseconds

// A card that writes down what it gives and takes back.
class NotingCard final : public caching::PoollessDriver {
 public:
  NotingCard(std::uint64_t capacity_bytes, MemorySnapshot& snapshot)
      : card_(capacity_bytes), snapshot_(snapshot) {}

  void note(SnapshotAction action, std::uint64_t address, std::uint64_t size_bytes,
            caching::Stream stream) {
    SnapshotEntry entry;
    entry.address = address;
    entry.size_bytes = size_bytes & ((std::uint64_t{1} << 50) - 1);
    entry.stream = stream & 4095;
    entry.time_us = (time_us_ += kTimeStepUs) & ((std::uint64_t{1} << 44) - 1);
    entry.action = action;
    entry.has_pool = 1;
    entry.pool = pool_ & 4095;
    snapshot_.entries.push_back(entry);
  }
  void start_busy(caching::Stream stream) { busy_.insert(stream); }
  void end_busy() {
    busy_.clear();
    pending_.clear();
  }
  [[nodiscard]] std::uint64_t free_bytes() { return card_.memory().free_bytes; }
  void expect_stream(caching::Stream stream) { stream_ = stream; }
  // Index of the pool that what follows is of.
  void expect_pool(std::uint32_t pool) { pool_ = pool; }
  [[nodiscard]] std::uint64_t time_us() const { return time_us_; }

  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream stream) override {
    const auto address = card_.allocate(size_bytes, stream);
    if (address) note(SnapshotAction::SegmentAlloc, *address, size_bytes, stream);
    if (address) segments_[*address] = {size_bytes, stream, pool_};
    return address;
  }
  // cudaFree waits for all work of the device.
  void free(std::uint64_t address) override {
    const Taken taken = segments_[address];
    end_busy();
    note_of(taken.pool, SnapshotAction::SegmentFree, address, taken.size_bytes, taken.stream);
    card_.free(address);
  }
  caching::DeviceMemory memory() override { return card_.memory(); }
  std::uint64_t device_total_bytes() override { return card_.device_total_bytes(); }
  caching::Event create_event() override { return card_.create_event(); }
  void destroy_event(caching::Event) override {}
  void record_event(caching::Event event, caching::Stream stream) override {
    pending_.erase(event);
    if (busy_.contains(stream)) pending_[event] = stream;
  }
  bool event_done(caching::Event event) override { return !pending_.contains(event); }
  // The work that the host waits for has ended, and with it the kernel before it.
  void wait_for_event(caching::Event event) override {
    if (const auto found = pending_.find(event); found != pending_.end()) end_work(found->second);
  }
  void wait_for_stream(caching::Stream stream) override {
    end_work(stream);
    stream_ = stream;
    begins_unmapping_ = true;
  }
  void wait_for_device() override { end_busy(); }
  std::uint64_t reserve_address(std::uint64_t size_bytes) override {
    const std::uint64_t address = card_.reserve_address(size_bytes);
    reservations_[address] = pool_;
    return address;
  }
  void free_address(std::uint64_t, std::uint64_t) override {}
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override {
    return card_.create_page(size_bytes);
  }
  void release_page(caching::PageHandle page) override { card_.release_page(page); }
  void map_page(std::uint64_t, std::uint64_t, caching::PageHandle) override {}
  void allow_access(std::uint64_t address, std::uint64_t size_bytes) override {
    note(SnapshotAction::SegmentMap, address, size_bytes, stream_);
  }
  // Pages of one block are one entry.
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override {
    if (begins_unmapping_) {
      const std::uint32_t pool = std::prev(reservations_.upper_bound(address))->second;
      note_of(pool, SnapshotAction::SegmentUnmap, address, size_bytes, stream_);
    } else {
      SnapshotEntry& entry = snapshot_.entries.back();
      entry.size_bytes = (entry.size_bytes + size_bytes) & ((std::uint64_t{1} << 50) - 1);
    }
    begins_unmapping_ = false;
  }

 private:
  struct Taken {
    std::uint64_t size_bytes = 0;
    caching::Stream stream = 0;
    std::uint32_t pool = 0;
  };

  void note_of(std::uint32_t pool, SnapshotAction action, std::uint64_t address,
               std::uint64_t size_bytes, caching::Stream stream) {
    std::swap(pool, pool_);
    note(action, address, size_bytes, stream);
    pool_ = pool;
  }

  void end_work(caching::Stream stream) {
    busy_.erase(stream);
    std::erase_if(pending_, [&](const auto& one) { return one.second == stream; });
  }

  CardDriver card_;
  MemorySnapshot& snapshot_;
  caching::Stream stream_ = 0;
  std::uint32_t pool_ = 0;
  bool begins_unmapping_ = false;
  std::uint64_t time_us_ = 0;
  std::set<caching::Stream> busy_;
  std::map<caching::Event, caching::Stream> pending_;  // events behind running kernels
  std::unordered_map<std::uint64_t, Taken> segments_;
  std::map<std::uint64_t, std::uint32_t> reservations_;  // first address -> pool
};

class HistoryRecorder {
 public:
  HistoryRecorder(EventSource& source, const RecordRequest& request)
      : source_(source),
        card_(request.capacity_bytes, snapshot_),
        allocator_(card_, request.settings) {
    snapshot_.settings = {
        .known = true,
        .conf = request.conf,
        .max_split_bytes = static_cast<std::int64_t>(request.settings.max_split_size_bytes),
        .garbage_collection_threshold = request.settings.garbage_collection_threshold,
        .expandable_segments = request.settings.expandable_segments,
        .roundup_divisions = {}};
    for (std::size_t i = 0; i < caching::kIntervalCount; ++i) {
      snapshot_.settings.roundup_divisions.emplace_back(
          std::to_string(1u << i), request.settings.roundup_power2_divisions[i]);
    }
    snapshot_.time_us_first = kTimeFirstUs;
  }

  MemorySnapshot run(std::uint64_t first_entry) {
    source_.rewind();
    for (auto batch = source_.next(); !batch.empty(); batch = source_.next()) {
      for (const Event& event : batch) add(event);
    }
    // A stream index is its handle: all that matters is that they differ.
    snapshot_.streams.clear();
    for (std::uint64_t i = 0; i < std::max(1u, source_.header().stream_count); ++i)
      snapshot_.streams.push_back(i);
    add_segments();
    const std::uint64_t count = snapshot_.entries.size();
    const std::uint64_t first = std::min(first_entry, count);
    snapshot_.traces = {{{.first = first, .count = count - first}}};
    return snapshot_;
  }

 private:
  struct Block {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t stream = 0;
    std::uint32_t pool = 0;
  };

  void add(const Event& event) {
    const std::size_t at = snapshot_.entries.size();
    switch (event.kind) {
      case EventKind::Alloc:
        return allocate(event);
      case EventKind::Free:
        return free(event);
      case EventKind::Record:
        if (const auto found = live_.find(event.id); found != live_.end())
          static_cast<void>(allocator_.record_stream(found->second.address, event.stream));
        return;
      case EventKind::Busy:
        return card_.start_busy(event.stream);
      case EventKind::Sync:
        return card_.end_busy();
      case EventKind::Trim:
        event.id == 0 ? allocator_.empty_cache() : allocator_.empty_pool(event.id);
        return note_completed(at);
      case EventKind::Mark: {
        const auto name = static_cast<std::uint32_t>(snapshot_.texts.size());
        snapshot_.texts.push_back(source_.labels()[event.id]);
        snapshot_.annotations.push_back(
            {.name = name, .is_start = true, .device = 0, .time_us = card_.time_us()});
        return;
      }
      case EventKind::PoolCreate:
      case EventKind::PoolBegin:
      case EventKind::PoolEnd:
      case EventKind::PoolRelease:
      case EventKind::PoolOnOom:
      case EventKind::PoolNoSplit:
      case EventKind::CaptureBegin:
      case EventKind::CaptureEnd:
        return caching::call_pool(allocator_, pool_action_of(event.kind), event.id, event.stream,
                                  event.size_bytes != 0);
      case EventKind::GraphReplay:
      case EventKind::Kernel:
      case EventKind::Host:
      case EventKind::HostAlloc:
      case EventKind::HostFree:
      case EventKind::HostRecord:
        return;
    }
  }

  void allocate(const Event& event) {
    if (event.size_bytes == 0) return;
    const std::uint32_t routed = pool_index(allocator_.routed_owner(event.stream));
    card_.expect_pool(routed);
    const std::size_t at = snapshot_.entries.size();
    card_.expect_stream(event.stream);
    const auto address = allocator_.allocate(event.size_bytes, event.stream);
    note_completed(at);
    card_.expect_pool(routed);
    if (!address) {
      card_.note(SnapshotAction::Oom, card_.free_bytes(), allocator_.last_failure()->size_bytes,
                 event.stream);
      return;
    }
    // A pool that is on call when memory is out may have served.
    const std::uint32_t pool =
        pool_index(allocator_.heap().allocated.find(*address)->home->pool->owner);
    card_.expect_pool(pool);
    card_.note(SnapshotAction::Alloc, *address, event.size_bytes, event.stream);
    live_[event.id] = {*address, event.size_bytes, event.stream, pool};
  }

  // Where it is in the snapshot's list.
  [[nodiscard]] std::uint32_t pool_index(const caching::PrivatePool* pool) {
    if (pool == nullptr) return 0;
    const std::uint32_t index = index_of_id(pool->id);
    if (index < snapshot_.pools.size()) return index;
    constexpr std::size_t kPoolCountMax = 4095;
    if (snapshot_.pools.size() > kPoolCountMax) {
      throw UsageError({.what = "too many private pools for a snapshot",
                        .where = source_.header().name,
                        .wanted = "at most 4095",
                        .got = "more"});
    }
    snapshot_.pools.emplace_back(0, static_cast<std::int64_t>(pool->id));
    return index;
  }

  void free(const Event& event) {
    const auto found = live_.find(event.id);
    if (found == live_.end()) return;
    const Block block = found->second;
    live_.erase(found);
    card_.expect_pool(block.pool);
    card_.note(SnapshotAction::FreeRequested, block.address, block.size_bytes, block.stream);
    waiting_[block.address] = block;
    const std::size_t at = snapshot_.entries.size();
    static_cast<void>(allocator_.deallocate(block.address));
    // Only this block can have become free at once.
    std::unordered_map<std::uint64_t, Block> others;
    others.swap(waiting_);
    waiting_[block.address] = others[block.address];
    others.erase(block.address);
    note_completed(at);
    waiting_.merge(others);
  }

  // Blocks that no longer wait became free in the operation that began at entry `at`, before what
  // it asked of the device.
  void note_completed(std::size_t at) {
    if (waiting_.empty()) return;
    std::set<std::uint64_t> still;
    for (const caching::Block* block : allocator_.waiting_blocks()) still.insert(block->address);
    std::vector<SnapshotEntry> completed;
    const std::size_t before = snapshot_.entries.size();
    for (auto entry = waiting_.begin(); entry != waiting_.end();) {
      if (still.contains(entry->first)) {
        ++entry;
        continue;
      }
      card_.expect_pool(entry->second.pool);
      card_.note(SnapshotAction::FreeCompleted, entry->first, entry->second.size_bytes,
                 entry->second.stream);
      entry = waiting_.erase(entry);
    }
    std::rotate(snapshot_.entries.begin() + static_cast<std::ptrdiff_t>(at),
                snapshot_.entries.begin() + static_cast<std::ptrdiff_t>(before),
                snapshot_.entries.end());
  }

  // Of a segment's pool: one that nothing was noted of is behind the last.
  [[nodiscard]] std::uint32_t index_of_id(std::uint64_t id) const {
    const std::pair<std::int64_t, std::int64_t> wanted{0, static_cast<std::int64_t>(id)};
    return static_cast<std::uint32_t>(std::ranges::find(snapshot_.pools, wanted) -
                                      snapshot_.pools.begin());
  }

  void add_segments() {
    for (const caching::SegmentInfo& info : caching::take_snapshot(allocator_)) {
      SnapshotSegment& segment = snapshot_.segments.emplace_back();
      segment = {.address = info.address,
                 .size_bytes = info.total_bytes,
                 .first_block = snapshot_.blocks.size(),
                 .block_count = info.blocks.size(),
                 .stream = static_cast<std::uint32_t>(info.stream),
                 .pool = index_of_id(info.pool),
                 .is_large = info.kind == caching::PoolKind::Large,
                 .is_expandable = info.expandable};
      for (const caching::BlockInfo& block : info.blocks) {
        const bool allocated = block.state == caching::BlockState::ActiveAllocated;
        snapshot_.blocks.push_back({.address = block.address,
                                    .size_bytes = block.size_bytes,
                                    .requested_bytes = block.requested_bytes,
                                    .state = allocated ? SnapshotBlockState::Allocated
                                             : block.state == caching::BlockState::Inactive
                                                 ? SnapshotBlockState::Inactive
                                                 : SnapshotBlockState::PendingFree});
      }
    }
  }

  EventSource& source_;
  MemorySnapshot snapshot_;
  NotingCard card_;
  caching::CachingAllocator allocator_;
  std::unordered_map<std::uint64_t, Block> live_;     // by id
  std::unordered_map<std::uint64_t, Block> waiting_;  // by address
};

}  // namespace

MemorySnapshot record_on_caching(EventSource& source, const RecordRequest& request) {
  return HistoryRecorder(source, request).run(request.first_entry);
}

}  // namespace allocmark

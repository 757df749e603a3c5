#include "harness/simcuda/core/device.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.h"

namespace simcuda {
namespace {

// Stream creations that take a page of the heap: the 2nd, 6th, 10th, ... of a process.
bool takes_page(std::uint64_t stream_count) { return stream_count % 4 == 2; }

}  // namespace

Device::Device(DeviceConfig config)
    : config_(std::move(config)),
      memory_(config_),
      host_memory_(host_of(config_)),
      streams_(config_.pending_launches_max),
      area_({config_.area_address, config_.area_end_address}, config_.area_hole),
      heap_(config_, memory_, area_, [this](Work& work) { reclaim(memory_, std::nullopt, work); }),
      virtual_memory_(memory_, heap_, [this](Work& work) { reclaim(memory_, std::nullopt, work); }),
      stream_count_(config_.streams_created),
      stream_count_high_(config_.streams_created) {}

Device::~Device() = default;

AllocationOutcome Device::allocate(std::uint64_t size_bytes) { return heap_.allocate(size_bytes); }

Outcome Device::deallocate(std::uint64_t address, std::uint64_t now_ns) {
  if (address == 0) return {};
  if (MemoryPool* const holder = pool_holding(address)) {
    // The driver takes it that all work on the block has ended, and does not wait.
    note_pool_took(address, *holder, std::nullopt);
    Outcome outcome = holder->deallocate_now(address);
    retire_pools(now_ns, outcome.work);
    return outcome;
  }
  // A graph's block is freed at once as well.
  if (graph_memory_ != nullptr && graph_memory_->end_block(address)) return {};
  const Finish finish = streams_.device_finish(now_ns);
  if (finish.status != Status::Ok) return {.status = finish.status};
  if (is_drivers_own(address)) return {.status = Status::InvalidValue};
  Outcome outcome = heap_.deallocate(address);
  if (outcome.status == Status::Ok) {
    outcome.work.host_wait_until_ns = finish.finish_ns;
    note_host_saw_device();
  }
  return outcome;
}

std::vector<Range> Device::free_heap() {
  std::vector<Range> freed;
  for (const std::uint64_t address : heap_.live_addresses()) {
    if (is_drivers_own(address)) continue;
    const std::uint64_t size_bytes = heap_.find(address).size_bytes;
    const Outcome outcome = heap_.deallocate(address);
    ALLOCMARK_ASSERT(outcome.status == Status::Ok);
    freed.push_back({address, address + size_bytes});
  }
  return freed;
}

PoolOutcome Device::create_pool(std::uint64_t size_bytes_max) {
  return add_pool(next_pool_++, size_bytes_max);
}

PoolOutcome Device::add_pool(PoolId id, std::uint64_t size_bytes_max) {
  const std::uint64_t limit_bytes = size_bytes_max == 0 ? config_.total_bytes : size_bytes_max;
  if (limit_bytes > config_.area_end_address) return {.status = Status::InvalidValue};
  const std::uint64_t chunk_count = round_up(limit_bytes, kChunkBytes) / kChunkBytes;
  const std::uint64_t range_bytes = 2 * chunk_count * kChunkBytes;
  const std::optional<std::uint64_t> lo = area_.take(range_bytes);
  if (!lo) return {.status = Status::OutOfMemory};
  add_slot({.id = id, .in_area = true, .memory = &memory_},
           {.range = {*lo, *lo + range_bytes}, .chunk_count_max = chunk_count});
  return {.pool = id};
}

void Device::add_slot(PoolSlot slot, const MemoryPool::Setup& setup) {
  const auto reclaim_others = [this, id = slot.id, memory = slot.memory](Work& work) {
    reclaim(*memory, id, work);
  };
  slot.pool =
      std::make_unique<MemoryPool>(setup, *slot.memory, streams_, pool_streams_, reclaim_others);
  pools_.push_back(std::move(slot));
}

bool Device::holds_pool(PoolId pool) const {
  return std::ranges::find(pools_, pool, &PoolSlot::id) != pools_.end();
}

MemoryPool* Device::pool(PoolId pool) {
  const auto slot = std::ranges::find(pools_, pool, &PoolSlot::id);
  if (slot != pools_.end()) return slot->named ? slot->pool.get() : nullptr;
  if (pool == kDefaultPool && add_pool(kDefaultPool, 0).status == Status::Ok) {
    return pools_.back().pool.get();
  }
  return nullptr;
}

Outcome Device::destroy_pool(PoolId pool, std::uint64_t now_ns) {
  if (pool == kDefaultPool || this->pool(pool) == nullptr) return {.status = Status::InvalidHandle};
  std::ranges::find(pools_, pool, &PoolSlot::id)->named = false;
  ++unnamed_pool_count_;
  Outcome outcome;
  retire_pools(now_ns, outcome.work);
  return outcome;
}

AllocationOutcome Device::allocate_async(std::uint64_t size_bytes, StreamId stream, PoolId pool,
                                         std::uint64_t now_ns) {
  MemoryPool* const from = this->pool(pool);
  if (from == nullptr || !streams_.stream_exists(stream)) return {.status = Status::InvalidHandle};
  const AllocationOutcome outcome = from->allocate(size_bytes, stream, now_ns);
  if (check_ && outcome.address != 0) {
    check_->uses.pool_gave({outcome.address, outcome.address + outcome.size_bytes}, stream);
  }
  return outcome;
}

Outcome Device::deallocate_async(std::uint64_t address, StreamId stream, std::uint64_t now_ns) {
  if (!streams_.stream_exists(stream)) return {.status = Status::InvalidHandle};
  if (MemoryPool* const holder = pool_holding(address)) {
    note_pool_took(address, *holder, stream);
    Outcome outcome = holder->deallocate_on(address, stream, now_ns);
    retire_pools(now_ns, outcome.work);
    return outcome;
  }
  if (graph_memory_ != nullptr && graph_memory_->end_block(address, stream, now_ns)) return {};
  return {.status = Status::InvalidValue};
}

GraphMemory& Device::graph_memory() {
  if (graph_memory_ == nullptr) {
    graph_memory_ = std::make_unique<GraphMemory>(
        memory_, streams_, area_, [this](Work& work) { reclaim(memory_, std::nullopt, work); });
  }
  return *graph_memory_;
}

Outcome Device::trim_pool(PoolId pool, std::uint64_t keep_bytes) {
  MemoryPool* const at = this->pool(pool);
  return at == nullptr ? Outcome{.status = Status::InvalidHandle} : at->trim(keep_bytes);
}

StreamOutcome Device::create_stream(StreamKind kind, std::uint64_t now_ns) {
  StreamOutcome outcome;
  forget_ended_streams(now_ns);
  // Pages are kept for later streams until memory runs short.
  if (stream_count_ == stream_count_high_) {
    if (takes_page(stream_count_ + 1)) {
      const AllocationOutcome page = heap_.allocate(kPageBytes);
      outcome.work = page.work;
      outcome.status = page.status;
      if (outcome.status != Status::Ok) return outcome;
      stream_pages_.push_back(page.address);
    }
    ++stream_count_high_;
  }
  ++stream_count_;
  outcome.stream = streams_.create_stream(kind);
  return outcome;
}

Outcome Device::destroy_stream(StreamId stream, std::uint64_t now_ns) {
  if (!streams_.destroy_stream(stream)) return {.status = Status::InvalidHandle};
  --stream_count_;
  forget_ended_streams(now_ns);
  return {};
}

// Ids of streams that nothing refers to any more may be used again.
void Device::forget_ended_streams(std::uint64_t now_ns) {
  if (!streams_.any_destroyed()) return;
  for (const StreamId stream : streams_.ended_streams(now_ns)) {
    const auto is_pending = [&](const PoolSlot& slot) { return slot.pool->has_pending(stream); };
    if (std::ranges::any_of(pools_, is_pending)) continue;
    for (const PoolSlot& slot : pools_) slot.pool->forget_stream(stream);
    pool_streams_.forget(stream);
    streams_.release_stream(stream);
  }
}

Outcome Device::synchronize_stream(StreamId stream, std::uint64_t now_ns) {
  const Finish finish = streams_.stream_finish(stream, now_ns);
  if (check_ && finish.status == Status::Ok) check_->order.host_saw_stream(stream);
  return after_wait(finish, now_ns,
                    [&](StreamId other) { return streams_.ordered_behind(stream, other); });
}

Outcome Device::synchronize_event(EventId event, std::uint64_t now_ns) {
  const Finish finish = streams_.event_finish(event);
  if (check_ && finish.status == Status::Ok) check_->order.host_saw(event);
  return after_wait(finish, now_ns,
                    [&](StreamId other) { return streams_.event_ordered_behind(event, other); });
}

Outcome Device::synchronize_device(std::uint64_t now_ns) {
  const Finish finish = streams_.device_finish(now_ns);
  if (finish.status == Status::Ok) note_host_saw_device();
  return after_wait(
      finish, now_ns, [&](StreamId other) { return streams_.position(other); },
      /*whole_device=*/true);
}

// The host has waited: what it now knows to be free becomes common, and pools release what is above
// their threshold.
Outcome Device::after_wait(const Finish& finish, std::uint64_t now_ns,
                           const FinishedThrough& finished_through, bool whole_device) {
  Outcome outcome{.status = finish.status};
  if (finish.status != Status::Ok) return outcome;
  outcome.work.host_wait_until_ns = finish.finish_ns;
  bool any_moved = false;
  for (const PoolSlot& slot : pools_) {
    any_moved |= slot.pool->collect(finished_through, outcome.work);
  }
  for (const PoolSlot& slot : pools_) {
    slot.pool->settle(any_moved, whole_device, outcome.work);
  }
  retire_pools(std::max(now_ns, finish.finish_ns), outcome.work);
  return outcome;
}

std::size_t Device::free_block_count() const {
  std::size_t count = 0;
  for (const PoolSlot& slot : pools_) count += slot.pool->free_block_count();
  return count;
}

MemoryBlock Device::find(std::uint64_t address) const {
  if (const Mapping mapping = virtual_memory_.find(address); mapping.handle != 0) {
    return {.kind = MemoryKind::Mapped,
            .range = mapping.range,
            .asked_bytes = mapping.range.size_bytes()};
  }
  if (const MemoryPool* const holder = pool_holding(address)) {
    const Range range = holder->find(address);
    return {.kind = range.empty() ? MemoryKind::None : MemoryKind::Pool,
            .range = range,
            .asked_bytes = range.size_bytes()};
  }
  if (graph_memory_ != nullptr) {
    const Range range = graph_memory_->find_block(address);
    if (!range.empty()) {
      return {.kind = MemoryKind::Graph, .range = range, .asked_bytes = range.size_bytes()};
    }
  }
  const DeviceHeap::Allocation block = heap_.find(address);
  if (block.size_bytes == 0 || is_drivers_own(block.address)) return {};
  return {.kind = MemoryKind::Heap,
          .range = {block.address, block.address + block.size_bytes},
          .asked_bytes = block.asked_bytes};
}

// Its pages for streams lie in the heap, where a stale address of the program may point.
bool Device::is_drivers_own(std::uint64_t address) const {
  return std::ranges::find(stream_pages_, address) != stream_pages_.end();
}

// The pool whose address range holds the address.
MemoryPool* Device::pool_holding(std::uint64_t address) const {
  const auto slot = std::ranges::find_if(
      pools_, [&](const PoolSlot& at) { return at.pool->range().holds(address); });
  return slot == pools_.end() ? nullptr : slot->pool.get();
}

// Memory is short: pools (but the one that asks) give back all their whole free chunks, also below
// the threshold.
void Device::reclaim(const PhysicalMemory& memory, std::optional<PoolId> except, Work& work) {
  if (&memory == &memory_) {
    work.pools_gave_back = true;
    give_back_stream_pages(work);
  }
  for (const PoolSlot& slot : pools_) {
    if (slot.memory == &memory && slot.id != except) {
      slot.pool->release(0, work);
    }
  }
}

// Those that were kept for later streams.
void Device::give_back_stream_pages(Work& work) {
  while (stream_count_high_ > stream_count_ && !stream_pages_.empty()) {
    if (takes_page(stream_count_high_)) {
      const Outcome freed = heap_.deallocate(stream_pages_.back());
      ALLOCMARK_ASSERT(freed.status == Status::Ok);
      work.pages_returned += freed.work.pages_returned;
      stream_pages_.pop_back();
    }
    --stream_count_high_;
  }
}

// Removes destroyed pools whose last block is free; returns the chunks that went back to the
// device.
void Device::retire_pools(std::uint64_t now_ns, Work& work) {
  if (unnamed_pool_count_ == 0) return;
  for (auto slot = pools_.begin(); slot != pools_.end();) {
    if (slot->named || !slot->pool->idle(now_ns)) {
      ++slot;
      continue;
    }
    slot->pool->count_returned(slot->pool->usage().reserved_bytes / kChunkBytes, work);
    if (slot->in_area) {
      const bool given = area_.give(slot->pool->range().lo);
      ALLOCMARK_ASSERT(given);
    }
    slot = pools_.erase(slot);
    --unnamed_pool_count_;
  }
}

}  // namespace simcuda

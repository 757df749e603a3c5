#include "harness/simcuda/core/memory_pool.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace simcuda {

MemoryPool::MemoryPool(Setup setup, PhysicalMemory& memory, StreamOrder& streams,
                       PoolStreams& known_streams, std::function<void(Work&)> on_shortage)
    : setup_(setup),
      memory_(memory),
      streams_(streams),
      known_streams_(known_streams),
      on_shortage_(std::move(on_shortage)),
      mapped_(setup.range.size_bytes() / kChunkBytes),
      free_mapped_(setup.range.size_bytes() / kChunkBytes) {
  add_to_main(setup_.range);
}

MemoryPool::~MemoryPool() {
  for (std::uint64_t held = reserved_bytes() / kChunkBytes; held > 0; --held) {
    memory_.return_chunk();
  }
}

AllocationOutcome MemoryPool::allocate(std::uint64_t size_bytes, StreamId stream,
                                       std::uint64_t now_ns) {
  AllocationOutcome outcome;
  if (size_bytes == 0) return outcome;
  if (size_bytes > setup_.range.size_bytes()) return {.status = Status::OutOfMemory};
  outcome.size_bytes = round_up(size_bytes, kUnitBytes);
  outcome.address = place(outcome.size_bytes, stream, now_ns, outcome.work);
  if (outcome.address == 0) {
    outcome.status = Status::OutOfMemory;
    return outcome;
  }
  live_.emplace(outcome.address, size_bytes);
  used_bytes_ += size_bytes;
  used_bytes_high_ = std::max(used_bytes_high_, used_bytes_);
  return outcome;
}

std::uint64_t MemoryPool::place(std::uint64_t size_bytes, StreamId stream, std::uint64_t now_ns,
                                Work& work) {
  streams_.join_legacy(stream, now_ns);
  Pending& own = pending_of(stream);
  if (const std::optional<FreeBlock> block = own.blocks.best_fit(size_bytes)) {
    own.blocks.cut_low_end(*block, size_bytes);
    return block->range.lo;
  }
  std::uint64_t address = take_backed(size_bytes);
  if (address == 0 && attributes_.follow_event_dependencies) {
    // The stream comes after the free anyway.
    address = take_freed(size_bytes, stream, [&](const Pending& other) {
      return streams_.ordered_behind(stream, other.stream);
    });
  }
  // The host knows that the free has happened.
  const auto seen = [&](const Pending& other) {
    return streams_.seen(other.stream, other.last_free, now_ns);
  };
  if (address == 0 && attributes_.allow_opportunistic) {
    address = take_freed(size_bytes, stream, seen);
  }
  if (address == 0 && attributes_.allow_opportunistic) {
    move_freed(seen, [](const FreeBlock&) {});
  }
  if (address == 0) {
    address = take_new(size_bytes, work);
  }
  if (address == 0 && attributes_.allow_internal_dependencies) {
    address = take_and_wait(size_bytes, stream, now_ns, work);
  }
  return address;
}

// A block of main that has all its memory already.
std::uint64_t MemoryPool::take_backed(std::uint64_t size_bytes) {
  const auto found = backed_main_.lower_bound({size_bytes, 0, 0});
  if (found == backed_main_.end()) return 0;
  const std::uint64_t lo = std::get<2>(*found);
  cut_main(*main_.starting_at(lo), size_bytes);
  return lo;
}

template <class Until>
std::uint64_t MemoryPool::take_freed(std::uint64_t size_bytes, StreamId stream, Until until) {
  for (Pending& other : pending_) {
    if (other.stream == stream || other.blocks.empty()) continue;
    if (const std::optional<FreeBlock> block =
            other.blocks.best_fit_until(size_bytes, until(other))) {
      other.blocks.cut_low_end(*block, size_bytes);
      return block->range.lo;
    }
  }
  return 0;
}

template <class Until, class Moved>
void MemoryPool::move_freed(Until until, Moved moved) {
  for (Pending& pending : pending_) {
    if (pending.blocks.empty()) continue;
    const Position last = until(pending);
    while (const std::optional<FreeBlock> block = pending.blocks.latest_until(last)) {
      pending.blocks.remove(*block);
      moved(add_to_main(block->range));
    }
  }
}

// Any block of main; memory is found for what has none.
std::uint64_t MemoryPool::take_new(std::uint64_t size_bytes, Work& work) {
  const std::optional<FreeBlock> block = main_.best_fit(size_bytes);
  if (!block) return 0;
  // Cut first, so that its own chunks are not taken for it.
  cut_main(*block, size_bytes);
  const Range range = {block->range.lo, block->range.lo + size_bytes};
  const ChunkSpan touched = touched_chunks(range);
  const std::uint64_t need_count = touched.count() - mapped_.count_in(touched);
  const std::uint64_t gathered_count = gather(need_count, work);
  std::uint64_t left_count = gathered_count;
  for (std::uint64_t chunk = touched.first; chunk < touched.last && left_count > 0; ++chunk) {
    if (mapped_.contains(chunk)) continue;
    mapped_.insert(chunk);
    --left_count;
  }
  work.chunks_mapped += gathered_count;
  if (gathered_count == need_count) return range.lo;
  // What was found stays at the low end of the place that the block would have had.
  add_to_main(range);
  release(attributes_.release_threshold_bytes, work);
  return 0;
}

// The last resort: a block whose free lies ahead; the stream waits for it on the device.
std::uint64_t MemoryPool::take_and_wait(std::uint64_t size_bytes, StreamId stream,
                                        std::uint64_t now_ns, Work& work) {
  for (Pending& other : pending_) {
    if (other.stream == stream) continue;
    if (const std::optional<FreeBlock> block = other.blocks.best_fit(size_bytes)) {
      other.blocks.cut_low_end(*block, size_bytes);
      streams_.wait_unnoted(stream, other.stream, block->marker, now_ns);
      work.stream_waits = true;
      return block->range.lo;
    }
  }
  return 0;
}

Outcome MemoryPool::deallocate_on(std::uint64_t address, StreamId stream, std::uint64_t now_ns) {
  const auto block = live_.find(address);
  if (block == live_.end()) return {.status = Status::InvalidValue};
  const Range range = {address, address + round_up(block->second, kUnitBytes)};
  used_bytes_ -= block->second;
  live_.erase(block);
  Pending& pending = pending_of(stream);
  pending.last_free = streams_.mark(stream, now_ns);
  pending.blocks.insert(range, pending.last_free);
  return {};
}

Outcome MemoryPool::deallocate_now(std::uint64_t address) {
  const auto block = live_.find(address);
  if (block == live_.end()) return {.status = Status::InvalidValue};
  Outcome outcome;
  // used_bytes_ stays, as seen on the device every time.
  const FreeBlock merged = add_to_main({address, address + round_up(block->second, kUnitBytes)});
  live_.erase(block);
  release_until(attributes_.release_threshold_bytes, whole_chunks(merged.range), outcome.work);
  return outcome;
}

bool MemoryPool::collect(const FinishedThrough& finished_through, Work& work) {
  bool any_moved = false;
  move_freed([&](const Pending& pending) { return finished_through(pending.stream); },
             [&](const FreeBlock& merged) {
               release_until(attributes_.release_threshold_bytes, whole_chunks(merged.range), work);
               any_moved = true;
             });
  return any_moved;
}

void MemoryPool::settle(bool any_moved, bool whole_device, Work& work) {
  if (any_moved || (whole_device && threshold_was_set_)) {
    release(attributes_.release_threshold_bytes, work);
  }
  if (whole_device) threshold_was_set_ = false;
}

void MemoryPool::set_release_threshold(std::uint64_t threshold_bytes) {
  // Setting it to what it is does nothing, and nothing is to be settled where less is reserved.
  threshold_was_set_ |=
      threshold_bytes != attributes_.release_threshold_bytes && reserved_bytes() > threshold_bytes;
  attributes_.release_threshold_bytes = threshold_bytes;
}

MemoryUsage MemoryPool::usage() const {
  return {.reserved_bytes = reserved_bytes(),
          .reserved_bytes_high = reserved_bytes_high_,
          .used_bytes = used_bytes_,
          .used_bytes_high = used_bytes_high_};
}

void MemoryPool::reset_reserved_high() { reserved_bytes_high_ = reserved_bytes(); }

void MemoryPool::reset_used_high() { used_bytes_high_ = used_bytes_; }

Range MemoryPool::find(std::uint64_t address) const {
  const auto block = last_up_to(live_, address);
  if (block == live_.end() || address >= block->first + block->second) return {};
  return {block->first, block->first + block->second};
}

std::size_t MemoryPool::free_block_count() const {
  std::size_t count = main_.count();
  for (const Pending& pending : pending_) count += pending.blocks.count();
  return count;
}

bool MemoryPool::has_pending(StreamId stream) const {
  return std::any_of(pending_.begin(), pending_.end(), [stream](const Pending& pending) {
    return pending.stream == stream && !pending.blocks.empty();
  });
}

bool MemoryPool::idle(std::uint64_t now_ns) {
  return live_.empty() &&
         std::all_of(pending_.begin(), pending_.end(), [&](const Pending& pending) {
           return pending.blocks.empty() ||
                  streams_.finished(pending.stream, now_ns) >= pending.last_free;
         });
}

void MemoryPool::forget_stream(StreamId stream) {
  std::erase_if(pending_, [stream](const Pending& pending) { return pending.stream == stream; });
}

MemoryPool::Pending& MemoryPool::pending_of(StreamId stream) {
  for (Pending& pending : pending_) {
    if (pending.stream == stream) return pending;
  }
  const std::size_t place = known_streams_.place_of(stream);
  const auto behind = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& pending) {
    return known_streams_.place_of(pending.stream) > place;
  });
  return *pending_.insert(behind, {.stream = stream});
}

}  // namespace simcuda

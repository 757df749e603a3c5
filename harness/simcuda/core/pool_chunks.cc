// The part of MemoryPool that keeps main and its chunks: which blocks are backed, where memory for
// a new block comes from, what goes back to the device.
#include <algorithm>
#include <optional>

#include "base/assert.h"
#include "harness/simcuda/core/memory_pool.h"

namespace simcuda {

FreeBlock MemoryPool::add_to_main(Range range) {
  const ChunkSpan touched = touched_chunks(range);
  if (const std::optional<FreeBlock> next = main_.starting_at(range.hi)) {
    remove_from_main(*next);
    range.hi = next->range.hi;
  }
  if (const std::optional<FreeBlock> previous = main_.ending_at(range.lo)) {
    remove_from_main(*previous);
    range.lo = previous->range.lo;
  }
  const FreeBlock merged = main_.insert(range, 0);
  // Other chunks of the merged block were wholly free before.
  const ChunkSpan whole = whole_chunks(range);
  const std::uint64_t last = std::min(touched.last, whole.last);
  for (std::uint64_t chunk = std::max(touched.first, whole.first); chunk < last; ++chunk) {
    if (mapped_.contains(chunk)) {
      free_mapped_.insert(chunk);
    }
  }
  index_main(merged);
  return merged;
}

// A chunk that a block shares with its neighbours is always mapped, because every other kind of
// block is backed: so a block of main is backed where its whole chunks are. The last block of the
// range is never counted among them.
void MemoryPool::index_main(const FreeBlock& block) {
  if (block.range.hi == setup_.range.hi) return;
  const ChunkSpan whole = whole_chunks(block.range);
  if (mapped_.count_in(whole) == whole.count()) {
    backed_main_.emplace(block.range.size_bytes(), block.order, block.range.lo);
  }
}

void MemoryPool::remove_from_main(const FreeBlock& block) {
  backed_main_.erase({block.range.size_bytes(), block.order, block.range.lo});
  main_.remove(block);
}

void MemoryPool::cut_main(const FreeBlock& block, std::uint64_t size_bytes) {
  backed_main_.erase({block.range.size_bytes(), block.order, block.range.lo});
  free_mapped_.erase(touched_chunks({block.range.lo, block.range.lo + size_bytes}));
  const FreeBlock rest = main_.cut_low_end(block, size_bytes);
  if (!rest.range.empty()) {
    index_main(rest);
  }
}

// Finds memory for chunk_count chunks; returns how many it found.
std::uint64_t MemoryPool::gather(std::uint64_t chunk_count, Work& work) {
  std::uint64_t gathered_count = 0;
  while (gathered_count < chunk_count) {
    const std::optional<std::uint64_t> chunk = free_mapped_.last_in(all_chunks());
    if (!chunk) break;
    unmap_free_chunk(*chunk);
    ++gathered_count;
  }
  take_chunks(chunk_count, gathered_count, work);
  const std::uint64_t held_count = mapped_.count() + gathered_count;
  if (gathered_count < chunk_count && held_count < setup_.chunk_count_max) {
    on_shortage_(work);
    take_chunks(chunk_count, gathered_count, work);
  }
  const std::uint64_t reserved_now = reserved_bytes() + gathered_count * kChunkBytes;
  reserved_bytes_high_ = std::max(reserved_bytes_high_, reserved_now);
  return gathered_count;
}

void MemoryPool::take_chunks(std::uint64_t chunk_count, std::uint64_t& gathered_count, Work& work) {
  while (gathered_count < chunk_count &&
         mapped_.count() + gathered_count < setup_.chunk_count_max && memory_.take_chunk()) {
    ++gathered_count;
    ++work.chunks_taken;
  }
}

void MemoryPool::unmap_free_chunk(std::uint64_t chunk) {
  mapped_.erase(chunk);
  free_mapped_.erase(chunk);
  const std::optional<FreeBlock> block = main_.holding(setup_.range.lo + chunk * kChunkBytes);
  ALLOCMARK_ASSERT(block.has_value());
  backed_main_.erase({block->range.size_bytes(), block->order, block->range.lo});
}

void MemoryPool::release(std::uint64_t limit_bytes, Work& work) {
  release_until(limit_bytes, all_chunks(), work);
}

Outcome MemoryPool::trim(std::uint64_t keep_bytes) {
  Outcome outcome;
  // The same, but never below what is to be kept.
  const std::uint64_t limit_bytes = keep_bytes > setup_.range.size_bytes()
                                        ? setup_.range.size_bytes()
                                        : round_up(keep_bytes, kChunkBytes);
  release(limit_bytes, outcome.work);
  return outcome;
}

void MemoryPool::release_until(std::uint64_t limit_bytes, ChunkSpan within, Work& work) {
  while (reserved_bytes() > limit_bytes) {
    const std::optional<std::uint64_t> chunk = free_mapped_.last_in(within);
    if (!chunk) return;
    unmap_free_chunk(*chunk);
    memory_.return_chunk();
    count_returned(1, work);
  }
}

ChunkSpan MemoryPool::all_chunks() const {
  return {.first = 0, .last = setup_.range.size_bytes() / kChunkBytes};
}

ChunkSpan MemoryPool::whole_chunks(Range range) const {
  return {.first = (range.lo - setup_.range.lo + kChunkBytes - 1) / kChunkBytes,
          .last = (range.hi - setup_.range.lo) / kChunkBytes};
}

ChunkSpan MemoryPool::touched_chunks(Range range) const {
  return {.first = (range.lo - setup_.range.lo) / kChunkBytes,
          .last = (range.hi - setup_.range.lo + kChunkBytes - 1) / kChunkBytes};
}

std::uint64_t MemoryPool::reserved_bytes() const { return mapped_.count() * kChunkBytes; }

}  // namespace simcuda

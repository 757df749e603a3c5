#include "harness/simcuda/core/large_chunks.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "base/assert.h"

namespace simcuda {
namespace {

// Below B - 480 MiB everything is open when the context has been created.
constexpr std::uint64_t kReservedBelowBaseBytes = std::uint64_t{480} << 20;
constexpr std::size_t kSlotCountMin = 64;

bool has_room(Range block, std::uint64_t size_bytes, std::uint64_t alignment_bytes) {
  const std::uint64_t lo = round_up(block.lo, alignment_bytes);
  return lo <= block.hi && block.hi - lo >= size_bytes;
}

}  // namespace

LargeChunks::LargeChunks(const DeviceConfig& config, ReservedArea& area)
    : ranges_({config.lowest_heap_address, config.base_address - kReservedBelowBaseBytes}),
      area_(area) {
  longest_.reset(kSlotCountMin);
  for (const InitialChunk& chunk : config.initial_chunks) {
    const std::uint64_t lo = config.base_address + static_cast<std::uint64_t>(chunk.base_offset);
    const Range range = {lo, lo + kChunkBytes};
    (void)add_chunk(range, {lo + chunk.free_from_bytes, range.hi}, Chunk::Origin::Initial);
  }
}

std::optional<std::uint64_t> LargeChunks::take(std::uint64_t size_bytes) {
  std::optional<std::size_t> slot = longest_.last_at_least(size_bytes);
  if (!slot) {
    const std::uint64_t length_bytes = round_up(size_bytes, kChunkBytes);
    const std::optional<std::uint64_t> lo = ranges_.take_range(length_bytes);
    if (!lo) return std::nullopt;
    const Range range = {*lo, *lo + length_bytes};
    slot = add_chunk(range, range, Chunk::Origin::Ranges);
  }
  const std::vector<Range>& free = slots_[*slot].free;
  auto best = free.end();
  for (auto block = free.begin(); block != free.end(); ++block) {
    if (block->size_bytes() >= size_bytes &&
        (best == free.end() || block->size_bytes() < best->size_bytes())) {
      best = block;
    }
  }
  ALLOCMARK_ASSERT(best != free.end());
  const std::uint64_t address = best->lo;
  cut(*slot, static_cast<std::size_t>(best - free.begin()), {address, address + size_bytes});
  return address;
}

std::optional<std::uint64_t> LargeChunks::take_reserved(std::uint64_t size_bytes,
                                                        std::uint64_t alignment_bytes) {
  std::optional<std::size_t> slot = slot_with_room(size_bytes, alignment_bytes);
  if (!slot) {
    const std::uint64_t step_bytes = std::max(alignment_bytes, kChunkBytes);
    const std::uint64_t length_bytes = round_up(size_bytes, step_bytes);
    const std::optional<std::uint64_t> lo = area_.take(length_bytes, step_bytes);
    if (!lo) return std::nullopt;
    const Range range = {*lo, *lo + length_bytes};
    slot = add_chunk(range, range, Chunk::Origin::Area);
  }
  const std::vector<Range>& free = slots_[*slot].free;
  const auto lowest = std::ranges::find_if(
      free, [&](Range block) { return has_room(block, size_bytes, alignment_bytes); });
  ALLOCMARK_ASSERT(lowest != free.end());
  const std::uint64_t address = round_up(lowest->lo, alignment_bytes);
  cut(*slot, static_cast<std::size_t>(lowest - free.begin()), {address, address + size_bytes});
  return address;
}

std::optional<std::size_t> LargeChunks::slot_with_room(std::uint64_t size_bytes,
                                                       std::uint64_t alignment_bytes) const {
  // Every block begins at a page.
  if (alignment_bytes <= kPageBytes) return longest_.last_at_least(size_bytes);
  for (std::size_t slot = slots_.size(); slot-- != 0;) {
    if (std::ranges::any_of(slots_[slot].free, [&](Range block) {
          return has_room(block, size_bytes, alignment_bytes);
        })) {
      return slot;
    }
  }
  return std::nullopt;
}

void LargeChunks::cut(std::size_t slot, std::size_t index, Range range) {
  std::vector<Range>& free = slots_[slot].free;
  const auto block = free.begin() + static_cast<std::ptrdiff_t>(index);
  const Range before = {block->lo, range.lo};
  block->lo = range.hi;
  if (block->empty()) {
    *block = before;
    if (before.empty()) {
      free.erase(block);
    }
  } else if (!before.empty()) {
    free.insert(block, before);
  }
  longest_.set(slot, longest_free(slots_[slot]));
}

void LargeChunks::give(Range range) {
  const auto found = std::prev(by_address_.upper_bound(range.lo));
  const std::size_t slot = found->second;
  Chunk& chunk = slots_[slot];
  ALLOCMARK_ASSERT(chunk.range.lo <= range.lo);
  ALLOCMARK_ASSERT(range.hi <= chunk.range.hi);
  auto next = std::lower_bound(chunk.free.begin(), chunk.free.end(), range.lo,
                               [](const Range& block, std::uint64_t lo) { return block.lo < lo; });
  if (next != chunk.free.end() && next->lo == range.hi) {
    range.hi = next->hi;
    next = chunk.free.erase(next);
  }
  if (next != chunk.free.begin() && std::prev(next)->hi == range.lo) {
    std::prev(next)->hi = range.hi;
    range.lo = std::prev(next)->lo;
  } else {
    chunk.free.insert(next, range);
  }
  if (range.size_bytes() == chunk.range.size_bytes() && chunk.origin != Chunk::Origin::Initial) {
    if (chunk.origin == Chunk::Origin::Ranges) {
      ranges_.give_range(chunk.range);
    } else {
      const bool given = area_.give(chunk.range.lo);
      ALLOCMARK_ASSERT(given);
    }
    by_address_.erase(found);
    chunk = Chunk{};
    longest_.set(slot, 0);
    return;
  }
  longest_.set(slot, longest_free(chunk));
}

Range LargeChunks::chunk_of(std::uint64_t address) const {
  return slots_[std::prev(by_address_.upper_bound(address))->second].range;
}

std::size_t LargeChunks::add_chunk(Range range, Range free, Chunk::Origin origin) {
  if (slots_.size() == longest_.slot_count()) {
    squeeze_slots();
  }
  by_address_.emplace(range.lo, slots_.size());
  longest_.set(slots_.size(), free.size_bytes());
  slots_.push_back({.range = range, .free = {free}, .origin = origin});
  return slots_.size() - 1;
}

std::uint64_t LargeChunks::longest_free(const Chunk& chunk) {
  std::uint64_t longest_bytes = 0;
  for (const Range& block : chunk.free) {
    longest_bytes = std::max(longest_bytes, block.size_bytes());
  }
  return longest_bytes;
}

void LargeChunks::squeeze_slots() {
  std::erase_if(slots_, [](const Chunk& chunk) { return chunk.range.empty(); });
  longest_.reset(std::max(kSlotCountMin, 2 * slots_.size()));
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    by_address_[slots_[slot].range.lo] = slot;
    longest_.set(slot, longest_free(slots_[slot]));
  }
}

}  // namespace simcuda

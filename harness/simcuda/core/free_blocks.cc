#include "harness/simcuda/core/free_blocks.h"

#include <algorithm>
#include <iterator>

#include "base/assert.h"

namespace simcuda {

FreeBlock FreeBlocks::insert(Range range, std::uint64_t marker, Range limits) {
  if (range.hi < limits.hi) {
    if (const std::optional<FreeBlock> next = starting_at(range.hi)) {
      range.hi = next->range.hi;
      marker = std::max(marker, next->marker);
      remove(*next);
    }
  }
  if (range.lo > limits.lo) {
    if (const std::optional<FreeBlock> previous = ending_at(range.lo)) {
      range.lo = previous->range.lo;
      marker = std::max(marker, previous->marker);
      remove(*previous);
    }
  }
  return place(range, marker);
}

std::optional<FreeBlock> FreeBlocks::best_fit(std::uint64_t size_bytes) const {
  const auto found = by_length_.lower_bound({size_bytes, 0, 0});
  if (found == by_length_.end()) return std::nullopt;
  return block_of(by_address_.find(std::get<2>(*found)));
}

std::optional<FreeBlock> FreeBlocks::best_fit_until(std::uint64_t size_bytes,
                                                    std::uint64_t marker_max) const {
  if (by_marker_.empty() || by_marker_.begin()->first > marker_max) return std::nullopt;
  const std::optional<FreeBlock> shortest = best_fit(size_bytes);
  if (!shortest || shortest->marker <= marker_max) return shortest;
  for (const auto& [marker, lo] : by_marker_) {
    if (marker > marker_max) break;
    const auto block = by_address_.find(lo);
    if (block->second.hi - lo >= size_bytes) return block_of(block);
  }
  return std::nullopt;
}

std::optional<FreeBlock> FreeBlocks::latest_until(std::uint64_t marker_max) const {
  const auto latest = last_up_to(by_marker_, marker_max);
  if (latest == by_marker_.end()) return std::nullopt;
  return block_of(by_address_.find(latest->second));
}

std::optional<FreeBlock> FreeBlocks::ending_at(std::uint64_t address) const {
  const auto behind = by_address_.lower_bound(address);
  if (behind == by_address_.begin() || std::prev(behind)->second.hi != address) return std::nullopt;
  return block_of(std::prev(behind));
}

std::optional<FreeBlock> FreeBlocks::starting_at(std::uint64_t address) const {
  const auto found = by_address_.find(address);
  if (found == by_address_.end()) return std::nullopt;
  return block_of(found);
}

std::optional<FreeBlock> FreeBlocks::holding(std::uint64_t address) const {
  const auto found = last_up_to(by_address_, address);
  if (found == by_address_.end() || found->second.hi <= address) return std::nullopt;
  return block_of(found);
}

void FreeBlocks::remove(const FreeBlock& block) {
  const std::size_t removed = by_address_.erase(block.range.lo);
  ALLOCMARK_ASSERT(removed == 1);
  by_length_.erase({block.range.size_bytes(), block.order, block.range.lo});
  if (block.marker != 0) {
    by_marker_.erase(block.marker);
  }
}

FreeBlock FreeBlocks::cut_low_end(const FreeBlock& block, std::uint64_t size_bytes) {
  remove(block);
  const Range rest = {block.range.lo + size_bytes, block.range.hi};
  if (rest.empty()) return FreeBlock{.range = rest};
  return place(rest, block.marker);
}

FreeBlock FreeBlocks::place(Range range, std::uint64_t marker) {
  const std::uint64_t order = next_order_++;
  by_address_.emplace(range.lo, Node{.hi = range.hi, .marker = marker, .order = order});
  by_length_.emplace(range.size_bytes(), order, range.lo);
  if (marker != 0) {
    by_marker_.emplace(marker, range.lo);
  }
  return {.range = range, .marker = marker, .order = order};
}

FreeBlock FreeBlocks::block_of(std::map<std::uint64_t, Node>::const_iterator at) const {
  return {
      .range = {at->first, at->second.hi}, .marker = at->second.marker, .order = at->second.order};
}

}  // namespace simcuda

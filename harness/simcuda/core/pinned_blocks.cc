// See pinned_blocks.h.
#include "harness/simcuda/core/pinned_blocks.h"

#include <optional>

#include "base/assert.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kSlabBytes = kPageBytes;
constexpr std::uint64_t kLongStepBytes = 4096;

}  // namespace

std::uint64_t PinnedBlocks::missing_bytes(std::uint64_t size_bytes) const {
  if (size_bytes > kSlabBytes) return round_up(size_bytes, kLongStepBytes);
  return holes_.best_fit(round_up(size_bytes, kUnitBytes)) ? 0 : kSlabBytes;
}

std::uint64_t PinnedBlocks::place(std::uint64_t size_bytes, std::uint64_t pinned) {
  if (size_bytes > kSlabBytes) {
    live_[pinned] = round_up(size_bytes, kLongStepBytes);
    return pinned;
  }
  const std::uint64_t taken_bytes = round_up(size_bytes, kUnitBytes);
  std::optional<FreeBlock> hole = holes_.best_fit(taken_bytes);
  if (!hole) {
    slabs_.insert(pinned);
    hole = holes_.insert({pinned, pinned + kSlabBytes}, kNoMarker, {pinned, pinned + kSlabBytes});
  }
  (void)holes_.cut_low_end(*hole, taken_bytes);
  live_[hole->range.lo] = taken_bytes;
  return hole->range.lo;
}

Range PinnedBlocks::remove(std::uint64_t address) {
  const auto block = live_.find(address);
  ALLOCMARK_ASSERT(block != live_.end());
  const Range range = {address, address + block->second};
  live_.erase(block);
  const auto first = last_up_to(slabs_, address);
  if (first == slabs_.end()) return range;
  const Range slab = {*first, *first + kSlabBytes};
  if (address >= slab.hi) return range;
  const FreeBlock hole = holes_.insert(range, kNoMarker, slab);
  if (hole.range.size_bytes() != kSlabBytes) return {};
  holes_.remove(hole);
  slabs_.erase(first);
  return slab;
}

}  // namespace simcuda

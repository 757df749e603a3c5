#include "harness/simcuda/core/address_ranges.h"

#include <iterator>

#include "base/assert.h"

namespace simcuda {

AddressRanges::AddressRanges(Range open) { gaps_.emplace(open.lo, open.hi); }

std::optional<std::uint64_t> AddressRanges::take_range(std::uint64_t size_bytes) {
  for (auto gap = gaps_.rbegin(); gap != gaps_.rend(); ++gap) {
    // Strictly: the driver reserves a little more than it needs and trims, so an exact hole is too
    // small for it.
    if (gap->second - gap->first > size_bytes) {
      gap->second -= size_bytes;
      return gap->second;
    }
  }
  return std::nullopt;
}

void AddressRanges::give_range(Range range) {
  auto next = gaps_.lower_bound(range.lo);
  if (next != gaps_.end()) {
    ALLOCMARK_ASSERT(range.hi <= next->first);
    if (range.hi == next->first) {
      range.hi = next->second;
      next = gaps_.erase(next);
    }
  }
  if (next != gaps_.begin()) {
    const auto previous = std::prev(next);
    ALLOCMARK_ASSERT(previous->second <= range.lo);
    if (previous->second == range.lo) {
      previous->second = range.hi;
      return;
    }
  }
  gaps_.emplace_hint(next, range.lo, range.hi);
}

}  // namespace simcuda

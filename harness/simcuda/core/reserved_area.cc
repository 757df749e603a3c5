#include "harness/simcuda/core/reserved_area.h"

#include <algorithm>
#include <optional>

namespace simcuda {

ReservedArea::ReservedArea(Range area, Range hole) : area_(area) {
  if (!hole.empty()) {
    used_.emplace(hole.lo, hole.hi);
    hole_ = hole.lo;
  }
}

std::optional<std::uint64_t> ReservedArea::take(std::uint64_t size_bytes,
                                                std::uint64_t alignment_bytes) {
  if (size_bytes > area_.size_bytes() || alignment_bytes > area_.hi) return std::nullopt;
  const std::uint64_t rounded_bytes = round_up(size_bytes, kChunkBytes);
  const std::uint64_t step_bytes = std::max(alignment_bytes, kChunkBytes);
  std::uint64_t candidate = round_up(area_.lo, step_bytes);
  for (const auto& [lo, hi] : used_) {
    if (candidate + rounded_bytes <= lo) break;
    candidate = std::max(candidate, round_up(hi, step_bytes));
  }
  if (candidate + rounded_bytes > area_.hi) return std::nullopt;
  used_.emplace(candidate, candidate + rounded_bytes);
  return candidate;
}

bool ReservedArea::give(std::uint64_t address) {
  return address != hole_ && used_.erase(address) == 1;
}

}  // namespace simcuda

#include "harness/simcuda/core/newest_fit.h"

#include <algorithm>
#include <bit>

namespace simcuda {

void NewestFit::reset(std::size_t slot_count) {
  leaf_count_ = std::bit_ceil(slot_count);
  maxima_.assign(2 * leaf_count_, 0);
}

void NewestFit::set(std::size_t slot, std::uint64_t value) {
  std::size_t node = leaf_count_ + slot;
  maxima_[node] = value;
  for (node /= 2; node >= 1; node /= 2) {
    const std::uint64_t maximum = std::max(maxima_[2 * node], maxima_[2 * node + 1]);
    if (maxima_[node] == maximum) {
      return;  // Nothing changes further up.
    }
    maxima_[node] = maximum;
  }
}

std::optional<std::size_t> NewestFit::last_at_least(std::uint64_t value_min) const {
  if (maxima_[1] < value_min) return std::nullopt;
  std::size_t node = 1;
  while (node < leaf_count_) {
    node = 2 * node + (maxima_[2 * node + 1] >= value_min ? 1 : 0);
  }
  return node - leaf_count_;
}

}  // namespace simcuda

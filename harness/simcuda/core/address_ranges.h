// Free address ranges, from which the large heap's chunks are cut: the highest gap that is strictly
// larger than the request, and its top end. Addresses only; no memory is involved. In: lengths,
// ranges given back. Out: addresses.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "harness/simcuda/core/units.h"

namespace simcuda {

class AddressRanges {
 public:
  explicit AddressRanges(Range open);

  // `size_bytes`: a multiple of kChunkBytes. Nothing where no gap is larger.
  [[nodiscard]] std::optional<std::uint64_t> take_range(std::uint64_t size_bytes);
  // A range that take_range gave, whole. Merges with both neighbours.
  void give_range(Range range);

  [[nodiscard]] std::size_t gap_count() const { return gaps_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> gaps_;  // lo -> hi
};

}  // namespace simcuda

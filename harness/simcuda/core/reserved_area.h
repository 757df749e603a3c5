// The low area of the address space that pools and large reservations share: the lowest gap that
// fits. In: lengths, ranges given back. Out: addresses, multiples of 32 MiB (or of a larger
// alignment).
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "harness/simcuda/core/units.h"

namespace simcuda {

class ReservedArea {
 public:
  // Nothing is ever placed in `hole`.
  ReservedArea(Range area, Range hole);

  // `alignment_bytes`: a power of two; 32 MiB at least is kept. Nothing where no gap fits.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes,
                                                  std::uint64_t alignment_bytes = kChunkBytes);
  // Gives back the range that starts at `address`; false where take gave none there.
  [[nodiscard]] bool give(std::uint64_t address);

 private:
  Range area_;
  std::uint64_t hole_ = 0;  // its lo; an entry of used_ that nobody can give back
  std::map<std::uint64_t, std::uint64_t> used_;  // lo -> hi, rounded up to 32 MiB
};

}  // namespace simcuda

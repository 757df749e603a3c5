// Sizes and places that the tests of this room share.
#pragma once
#include <cstdint>

namespace simcuda {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Where the first large reservation of addresses lies.
inline constexpr std::uint64_t kArea = 0x302000000;

}  // namespace simcuda

// Logarithm and power of two in integer arithmetic: the same bits on every machine, which libm does
// not promise. Q32 means 32 bits behind the binary point.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace allocmark {

inline constexpr std::uint64_t kQ32One = std::uint64_t{1} << 32;
__extension__ using WideQ32 = unsigned __int128;

[[nodiscard]] constexpr std::uint64_t multiply_q32(std::uint64_t a, std::uint64_t b) {
  return static_cast<std::uint64_t>((static_cast<WideQ32>(a) * b) >> 32);
}
// a * b / c without overflow in between; c above 0, and the result must fit into 64 bits.
[[nodiscard]] constexpr std::uint64_t scale(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return static_cast<std::uint64_t>(static_cast<WideQ32>(a) * b / c);
}

// log2(value) in Q32, rounded down; value above 0.
[[nodiscard]] std::uint64_t log2_q32(std::uint64_t value);
// 2^-exponent in Q32, of a Q32 exponent.
[[nodiscard]] std::uint64_t exp2_negative_q32(std::uint64_t exponent);

// An exponentially distributed number of mean 1, in Q32.
[[nodiscard]] std::uint64_t draw_exponential_q32(Random* random);
// A gamma distributed number of that shape (Q32, above 0) and scale 1, in Q32: exponential ones for
// the whole part of the shape, and for the rest Ahrens and Dieter's algorithm GS (1974).
[[nodiscard]] std::uint64_t draw_gamma_q32(std::uint64_t shape, Random* random);

}  // namespace allocmark

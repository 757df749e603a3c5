#include "workloads/serving/fixed_math.h"

#include <array>
#include <bit>
#include <cstddef>

namespace allocmark {
namespace {

// 2^(1/2), 2^(1/4), 2^(1/8) ... in Q32.
constexpr std::array<std::uint64_t, 32> kRoots = {
    6074001000, 5107605667, 4683695048, 4485121744, 4389014833, 4341736423, 4318288544, 4306612134,
    4300785774, 4297875550, 4296421177, 4295694175, 4295330720, 4295149004, 4295058149, 4295012722,
    4294990009, 4294978653, 4294972974, 4294970135, 4294968716, 4294968006, 4294967651, 4294967473,
    4294967385, 4294967340, 4294967318, 4294967307, 4294967302, 4294967299, 4294967297, 4294967297};
constexpr std::uint64_t kLn2 = 2'977'044'472;     // in Q32
constexpr std::uint64_t kOneByE = 1'580'030'169;  // 1 / e in Q32

// -ln of a uniform number in (0, 1], in Q32.
std::uint64_t negative_ln_of_uniform(std::uint64_t draw) {
  const std::uint64_t negative_log2 = (std::uint64_t{64} << 32) - log2_q32(draw | 1);
  return multiply_q32(negative_log2, kLn2);
}

// ln of a Q32 number above 0, as two parts of which one is 0.
struct SignedQ32 {
  std::uint64_t positive = 0;
  std::uint64_t negative = 0;
};
SignedQ32 ln_q32(std::uint64_t value) {
  constexpr std::uint64_t kLog2OfOne = std::uint64_t{32} << 32;
  const std::uint64_t log2 = log2_q32(value);
  if (log2 >= kLog2OfOne) return {.positive = multiply_q32(log2 - kLog2OfOne, kLn2)};
  return {.negative = multiply_q32(kLog2OfOne - log2, kLn2)};
}

// Shape below 1.
std::uint64_t draw_small_gamma(std::uint64_t shape, Random* random) {
  const std::uint64_t bound = kQ32One + multiply_q32(shape, kOneByE);
  while (true) {
    const std::uint64_t p = scale(random->next(), bound, ~std::uint64_t{0});
    const std::uint64_t test = negative_ln_of_uniform(random->next());
    if (p == 0) continue;
    if (p <= kQ32One) {
      const std::uint64_t exponent = (std::uint64_t{32} << 32) - log2_q32(p);
      const std::uint64_t x = exp2_negative_q32(scale(exponent, kQ32One, shape));
      if (test >= x) return x;
      continue;
    }
    const std::uint64_t left = scale(bound - p, kQ32One, shape);
    if (left == 0) continue;
    const SignedQ32 ln_left = ln_q32(left);  // at most 1 / e, so its logarithm is negative
    const std::uint64_t x = ln_left.negative;
    if (x == 0) continue;
    if (test >= multiply_q32(kQ32One - shape, ln_q32(x).positive)) return x;
  }
}

}  // namespace

std::uint64_t log2_q32(std::uint64_t value) {
  const auto whole = static_cast<unsigned>(std::bit_width(value)) - 1;
  std::uint64_t mantissa = value << (63 - whole);  // 1 to 2, with 63 bits behind the point
  std::uint64_t log2 = whole;
  for (int bit = 0; bit < 32; ++bit) {
    const WideQ32 square = static_cast<WideQ32>(mantissa) * mantissa;
    const bool doubled = (square >> 127) != 0;
    mantissa = static_cast<std::uint64_t>(square >> (doubled ? 64 : 63));
    log2 = log2 << 1 | (doubled ? 1 : 0);
  }
  return log2;
}

std::uint64_t exp2_negative_q32(std::uint64_t exponent) {
  // 2^-e = 2^(f - whole) with f from 0 to 1.
  const std::uint64_t whole = (exponent + kQ32One - 1) >> 32;
  if (whole >= 64) return 0;
  const std::uint64_t fraction = (whole << 32) - exponent;
  std::uint64_t power = kQ32One;
  for (std::size_t i = 0; i < kRoots.size(); ++i) {
    if ((fraction >> (31 - i) & 1) != 0) power = multiply_q32(power, kRoots[i]);
  }
  return power >> whole;
}

std::uint64_t draw_exponential_q32(Random* random) {
  return negative_ln_of_uniform(random->next());
}

std::uint64_t draw_gamma_q32(std::uint64_t shape, Random* random) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < shape >> 32; ++i) sum += draw_exponential_q32(random);
  const std::uint64_t rest = shape & (kQ32One - 1);
  if (rest > 0) sum += draw_small_gamma(rest, random);
  return sum;
}

}  // namespace allocmark

// See sign_flip.h.
#include "results/statistics/sign_flip.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace allocmark {
namespace {

constexpr std::uint32_t kDrawCount = 100'000;

// SplitMix64: the draws are the same every time.
std::uint64_t next_bits(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t bits = state;
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBU;
  return bits ^ (bits >> 31);
}

}  // namespace

double sign_flip_p_value(std::span<const double> differences) {
  std::vector<double> sizes;
  double seen = 0;
  for (const double difference : differences) {
    // A difference of 0 stays one whichever way it is flipped.
    if (difference != 0) sizes.push_back(std::abs(difference));
    seen += difference;
  }
  if (sizes.empty()) return 1;
  const double reach = seen - 1e-9 * std::abs(seen);
  const auto sum_of = [&](std::uint64_t signs, std::size_t begin, std::size_t end) {
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) {
      sum += (signs >> (i - begin)) % 2 == 1 ? sizes[i] : -sizes[i];
    }
    return sum;
  };
  std::uint64_t hit_count = 0;
  if (sizes.size() <= kSignFlipExactMax) {
    const std::uint64_t way_count = std::uint64_t{1} << sizes.size();
    for (std::uint64_t signs = 0; signs < way_count; ++signs) {
      hit_count += sum_of(signs, 0, sizes.size()) >= reach ? 1 : 0;
    }
    return static_cast<double>(hit_count) / static_cast<double>(way_count);
  }
  std::uint64_t state = 1;
  for (std::uint32_t draw = 0; draw < kDrawCount; ++draw) {
    double sum = 0;
    for (std::size_t begin = 0; begin < sizes.size(); begin += 64) {
      sum += sum_of(next_bits(state), begin, std::min(begin + 64, sizes.size()));
    }
    hit_count += sum >= reach ? 1 : 0;
  }
  // The way that was seen is one of them.
  return (static_cast<double>(hit_count) + 1) / (static_cast<double>(kDrawCount) + 1);
}

}  // namespace allocmark

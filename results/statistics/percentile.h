// Percentiles as exact fractions, and how many samples they need before they are claimed.
#pragma once

#include <cstdint>

namespace allocmark {

// Samples that must lie beyond a percentile before it is printed without a mark.
inline constexpr std::uint64_t kSamplesBeyondPercentile = 10;

// A percentile as a whole fraction, so that the minimum is exact: P99.9 is {999, 1000}.
struct Percentile {
  std::uint64_t numerator = 0, denominator = 1;
  [[nodiscard]] constexpr double share() const {
    return static_cast<double>(numerator) / static_cast<double>(denominator);
  }
};
inline constexpr Percentile kP50{.numerator = 1, .denominator = 2};
inline constexpr Percentile kP90{.numerator = 9, .denominator = 10};
inline constexpr Percentile kP95{.numerator = 19, .denominator = 20};
inline constexpr Percentile kP99{.numerator = 99, .denominator = 100};
inline constexpr Percentile kP999{.numerator = 999, .denominator = 1000};

// Samples needed so that at least kSamplesBeyondPercentile lie beyond it: P50 20, P90 100, P99
// 1000, P99.9 10,000.
[[nodiscard]] std::uint64_t sample_count_min(Percentile percentile);
[[nodiscard]] bool has_enough_samples(Percentile percentile, std::uint64_t sample_count);

// Samples for which the share beyond the percentile is right within `margin` (absolute) at this
// confidence, rounded up to a multiple of 8192 as MLPerf's load generator does: P99, 0.0005, 99 %:
// 270,336.
[[nodiscard]] std::uint64_t sample_count_for_margin(Percentile percentile, double margin,
                                                    double confidence = 0.99);

}  // namespace allocmark

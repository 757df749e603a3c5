// The numbers that are computed from a result rather than stored in it: rates with their
// uncertainty, whether a percentile rests on enough samples, and fragmentation under its published
// definitions. Flows in: counts and bytes; flows out: numbers, or nothing where they are not
// defined. Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "results/schema.h"

namespace allocmark {

// A share of trials and the interval that covers the true share with the stated confidence.
struct Proportion {
  double estimate = 0, low = 0, high = 0;  // 0..1
};

// Wilson's score interval (1927), two-sided; `confidence` in (0, 1). It stays within 0..1 and is of
// use at 0 of n and n of n, where the textbook interval has no width. Nothing for 0 trials or for
// more hits than trials.
[[nodiscard]] std::optional<Proportion> wilson_interval(std::uint64_t hit_count,
                                                        std::uint64_t trial_count,
                                                        double confidence = 0.95);

// Failed requests over the trace's requests, 0..1; nothing where the cell made none, did not
// measure, or stopped at an OOM (the rest of its requests was never made). No interval: requests of
// one trace are not independent.
[[nodiscard]] std::optional<double> oom_rate(const CellResult& cell);

// Timed passes with an OOM over timed passes, with Wilson's interval at 95 %.
[[nodiscard]] std::optional<Proportion> trial_oom_rate(const CellResult& cell);

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

// Whether the cell's numbers are measurements: status ok or oom_stopped.
[[nodiscard]] bool is_measured(const CellResult& cell);

// Below this live set fragmentation says more about the allocator's segment size than about
// fragmentation.
inline constexpr std::uint64_t kFragmentationFloorBytes = 16 * kMiB;

// One definition of fragmentation, by the name of who published or ships it; papers differ, so a
// bare "fragmentation" is never printed. results/README.md has each formula.
struct FragmentationDefinition {
  std::string_view name;  // name in CSV and in the export
  std::optional<double> (*value)(const CellResult& cell);
};

// Shares are in 0..1; ratios are >= 1. Nothing where the cell did not measure, where an input is
// unknown or contradicts another one, or where requested_bytes_peak lies below
// kFragmentationFloorBytes.
[[nodiscard]] std::span<const FragmentationDefinition> fragmentation_definitions();

// The share of the memory taken from the device that the program's own peak did not need, 0..1 (the
// tables' "waste"): 1 - requested_bytes_peak / device_bytes_peak. Nothing where a request failed:
// the program's peak was not reached then. The same floor applies.
[[nodiscard]] std::optional<double> waste_share(const CellResult& cell);

}  // namespace allocmark

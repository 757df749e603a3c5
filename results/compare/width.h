// When enough passes are enough: until the intervals of a cell's quantiles are narrow. Flows in:
// the passes so far; flows out: which intervals are still too wide. Neither times nor checks
// allocators. results/TIMES.md, "Until an interval is narrow", says what the interval
// promises.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/latency_histogram.h"
#include "results/schema.h"

namespace allocmark {

struct WidthRule {
  double width_max = 0;              // of the interval, as a share of the value; 0 = no rule
  std::uint32_t pass_count_min = 0;  // before the first look; at least kWidthPassCountMin
  std::uint32_t pass_count_max = 0;
  double confidence = 0.95;  // of all looks together
};

// Fewer passes have no interval at the confidence that one look of several needs.
inline constexpr std::uint32_t kWidthPassCountMin = 10;

// Pass counts after which the intervals are looked at: 10, 20, 40 ..., the last one
// pass_count_max. Fixed before the first pass, so that each look can get its part of the error.
[[nodiscard]] std::vector<std::uint32_t> width_looks(const WidthRule& rule);

// The interval of a number's pass quantiles (their logarithms) at the confidence of one look.
// Stopping at any look, for whatever reason, leaves it true with rule.confidence.
[[nodiscard]] Estimate look_interval(const std::vector<double>& values, const WidthRule& rule);

// "allocate P99 is 7.2 % wide" for every interval of allocate's P50 and P99 that is wider than the
// rule wants; a number with too few samples in a pass is named as such, since more passes do not
// help it.
struct WidthFindings {
  std::vector<std::string> too_wide = {};
  std::vector<std::string> unsupported = {};
};
[[nodiscard]] WidthFindings find_widths(const CellResult& cell, const WidthRule& rule,
                                        double clock_step_ns);

}  // namespace allocmark

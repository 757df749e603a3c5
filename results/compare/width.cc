// Intervals over passes, and the schedule on which they are looked at.
#include "results/compare/width.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "results/statistics/paired_shift.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

struct HeldNumber {
  const char* name;
  Percentile percentile;
};

constexpr HeldNumber kHeldNumbers[] = {{"allocate P50", kP50}, {"allocate P99", kP99}};

}  // namespace

std::vector<std::uint32_t> width_looks(const WidthRule& rule) {
  std::vector<std::uint32_t> looks;
  const std::uint64_t first = std::max(rule.pass_count_min, kWidthPassCountMin);
  for (std::uint64_t count = first; count < rule.pass_count_max; count *= 2) {
    looks.push_back(static_cast<std::uint32_t>(count));
  }
  looks.push_back(rule.pass_count_max);
  return looks;
}

Estimate look_interval(const std::vector<double>& values, const WidthRule& rule) {
  const auto look_count = static_cast<double>(width_looks(rule).size());
  const std::optional<Shift> centre =
      estimate_paired_shift(values, {.confidence = 1 - (1 - rule.confidence) / look_count});
  if (!centre) return {.value = 0, .low = -INFINITY, .high = INFINITY};
  return {.value = centre->estimate, .low = centre->low, .high = centre->high};
}

WidthFindings find_widths(const CellResult& cell, const WidthRule& rule, double clock_step_ns) {
  WidthFindings findings;
  for (const HeldNumber& number : kHeldNumbers) {
    const std::uint64_t wanted = sample_count_min(number.percentile);
    std::vector<double> values;
    std::uint64_t fewest = UINT64_MAX;
    for (const PassSummary& pass : cell.passes) {
      fewest = std::min(fewest, sample_count(pass.allocate_buckets));
      const auto value =
          resolved_quantile_ns(pass.allocate_buckets, number.percentile.share(), clock_step_ns);
      values.push_back(std::log(value.value_or(1)));
    }
    if (cell.passes.empty() || fewest < wanted) {
      findings.unsupported.push_back(fmt::format("{} has {} samples in a pass of {} that it needs",
                                                 number.name, cell.passes.empty() ? 0 : fewest,
                                                 wanted));
      continue;
    }
    const Estimate interval = look_interval(values, rule);
    const double width =
        std::exp(interval.high - interval.value) - std::exp(interval.low - interval.value);
    if (width > rule.width_max) {
      findings.too_wide.push_back(fmt::format("{} is {:.3g} % wide", number.name, width * 100));
    }
  }
  return findings;
}

}  // namespace allocmark

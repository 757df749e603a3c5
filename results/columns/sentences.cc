// What stands below tables: what of it is scaled, what the harness takes, and how near a second
// measurement is expected.
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "results/columns/columns.h"
#include "results/derived.h"

namespace allocmark {

std::string scaled_sentence(const Columns& columns) {
  if (!columns.has_scaled) return {};
  return "Host time of latencies is as measured; \"at card\" and times per step have it as on the "
         "host of the card that was profiled, or where that is not known as on this one without "
         "load.";
}

std::string overhead_sentence(std::span<const CellResult> cells) {
  double low_ns = std::numeric_limits<double>::infinity();
  double high_ns = 0;
  for (const CellResult& cell : cells) {
    const double value = cell.harness_overhead_ns_p50;
    if (!is_measured(cell) || !std::isfinite(value) || value <= 0) continue;
    low_ns = std::min(low_ns, value);
    high_ns = std::max(high_ns, value);
  }
  if (high_ns == 0) return {};
  const std::string low = fmt::format("{:.0f}", low_ns);
  const std::string high = fmt::format("{:.0f}", high_ns);
  return fmt::format(
      "The harness itself takes {} ns per event (P50 on the null backend, cell by cell; not "
      "subtracted).",
      low == high ? low : low + " to " + high);
}

std::string repeat_sentence(std::span<const CellResult> cells) {
  const auto median_ends = [&](RepeatInterval CellRepeat::*interval,
                               double LatencySummary::*value) {
    std::vector<double> lows;
    std::vector<double> highs;
    for (const CellResult& cell : cells) {
      const RepeatInterval& stated = cell.repeat.*interval;
      if (!is_measured(cell) || stated.high_ns == 0) continue;
      lows.push_back(100 * (stated.low_ns / (cell.allocate.total.*value) - 1));
      highs.push_back(100 * (stated.high_ns / (cell.allocate.total.*value) - 1));
    }
    return lows.empty() ? std::string()
                        : fmt::format("{:+.0f} to {:+.0f} %", median(lows), median(highs));
  };
  const std::string p50 = median_ends(&CellRepeat::allocate_p50, &LatencySummary::p50_ns);
  const std::string p99 = median_ends(&CellRepeat::allocate_p99, &LatencySummary::p99_ns);
  if (p50.empty()) return {};
  return fmt::format(
      "A second measurement is expected at {} of allocate's P50{} (95 %; median of the cells, each "
      "cell's interval is in the CSV).",
      p50, p99.empty() ? "" : " and " + p99 + " of its P99");
}

}  // namespace allocmark

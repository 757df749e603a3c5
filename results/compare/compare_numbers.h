// The numbers of a cell that two runs are compared by: which they are, which way is better, and how
// they come out of a stored result. Flows in: a cell; flows out: values per cell or per pass.
// Neither times nor checks allocators.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "results/compare/compare.h"
#include "results/latency_histogram.h"
#include "results/schema.h"
#include "results/statistics/percentile.h"

namespace allocmark {

// Exact numbers of two measured cells, with verdicts: placements, statuses, failed requests, bytes,
// device calls, modelled time and the allocator's own counters. `deterministic` is false where a
// cell's own passes differed.
[[nodiscard]] std::vector<NumberComparison> compare_exact(const CellResult& base,
                                                          const CellResult& now,
                                                          const ComparePolicy& policy);

// A latency quantile of one operation's total.
struct TimedNumber {
  std::string_view name = {};  // as stored
  bool allocate = true;
  Percentile percentile = {};
};
[[nodiscard]] std::span<const TimedNumber> timed_numbers();

// The number's operation over all passes.
[[nodiscard]] const LatencySummary& total_latency(const CellResult& cell,
                                                  const TimedNumber& number);

// A pass's samples of the number's operation.
[[nodiscard]] const LatencyBuckets& buckets_of(const PassSummary& pass, const TimedNumber& number);

// The quantile of each pass as a logarithm, from its histogram and resolved below the clock's step;
// empty where some pass has none.
[[nodiscard]] std::vector<double> pass_logs(const CellResult& cell, const TimedNumber& number,
                                            double clock_step_ns);

// The quantile of each pass, as logarithms. From histograms where both cells have them in every
// pass, else from the stored quantiles, so that both sides are computed in one way.
struct PassQuantiles {
  std::vector<double> base = {}, now = {};
  std::uint64_t sample_count_min = 0;  // of the pass with the fewest
  bool known = false;                  // false where a side has no such latency at all
};
// Histograms are resolved below the clock's step.
[[nodiscard]] PassQuantiles pass_quantiles(const CellResult& base, const CellResult& now,
                                           const TimedNumber& number, double clock_step_ns);

// Over all passes, with the interval that its samples alone support; nothing without histograms.
[[nodiscard]] std::optional<Estimate> pooled_quantile(const CellResult& cell,
                                                      const TimedNumber& number, double confidence);

// The stored quantile over all passes.
[[nodiscard]] std::optional<double> stored_quantile(const CellResult& cell,
                                                    const TimedNumber& number);

// Whether the cell says of itself that its passes did not decide alike.
[[nodiscard]] bool is_deterministic(const CellResult& cell);

}  // namespace allocmark

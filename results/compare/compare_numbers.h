// The numbers of a cell that two runs are compared by: which they are, which way is better, and how
// they come out of a stored result. Flows in: a cell; flows out: values per cell or per pass.
// Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/compare/compare.h"
#include "results/compare/timed_numbers.h"
#include "results/latency_histogram.h"
#include "results/schema.h"

namespace allocmark {

// Exact numbers of two measured cells, with verdicts: placements, statuses, failed requests, bytes,
// driver calls and the allocator's own counters. The safety numbers and driver calls rest on all
// processes of either side, which repeat the two cells.
using Processes = std::vector<const CellResult*>;
struct ExactSides {
  const CellResult* base = nullptr;
  const CellResult* now = nullptr;
  Processes base_processes = {}, now_processes = {};
};
[[nodiscard]] std::vector<NumberComparison> compare_exact(const ExactSides& sides,
                                                          const ComparePolicy& policy);

// Whether the number's verdict rests on all processes of either side, not on the two cells alone.
[[nodiscard]] bool rests_on_all_processes(const NumberComparison& number);

// Names are few, reasons are mostly alike, and equal texts of both sides are one.
void share_texts(TextPool& texts, NumberComparison& number);

// Why times of the two cells say nothing: one failed requests that the other served. Empty where
// both served the same ones.
[[nodiscard]] std::string other_requests(const Processes& base, const Processes& now);

// The number of each pass, as logarithms. From histograms where both cells have them in every
// pass, else from the stored quantiles, so that both sides are computed in one way.
struct PassQuantiles {
  std::vector<double> base = {}, now = {};
  std::uint64_t sample_count_min = 0;  // of the pass with the fewest
  bool known = false;                  // false where a side has no such number at all
};
// Histograms are resolved below the clock's step.
[[nodiscard]] PassQuantiles pass_quantiles(const CellResult& base, const CellResult& now,
                                           const TimedNumber& number, double clock_step_ns);

// Over all passes, with the interval that its samples alone support; nothing without histograms,
// and for what is no quantile.
[[nodiscard]] std::optional<Estimate> pooled_quantile(const CellResult& cell,
                                                      const TimedNumber& number, double confidence);

}  // namespace allocmark

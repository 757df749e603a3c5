// In which interval a second measurement of a cell is expected: the same program on the same
// machine, in another process, minutes later. Flows in: a cell with its passes, and how far apart
// two runs come on the machine; flows out: an interval for each timed number. Neither times nor
// checks allocators. results/TIMES.md, "Measured again", has the formula and where it was
// tried.
#pragma once

#include <span>
#include <string_view>

#include "results/compare/compare_policy.h"
#include "results/schema.h"

namespace allocmark {

// By how much two runs differ at most in 95 % of cells, as a share, beyond what the passes of one
// process show: where no calibration says it. Measured on an H200 whose host has other guests
// (results/DEFINITIONS.md); P50, P99.
inline constexpr double kBetweenRunsP50 = 0.13;
inline constexpr double kBetweenRunsP99 = 0.22;

// The calibration's for this number, or the default where there is none or it does not have it.
[[nodiscard]] double between_runs_share(std::string_view number, const Calibration* calibration);

// Half of the 95 % prediction interval of a second run's value, as a logarithm. `pass_logs`:
// logarithms of the passes' quantiles, at least two. Two uncertainties are added: the passes'
// spread, whose few degrees of freedom Student's t allows for, and the one between runs, with the
// quantiles of either weighed by variance (Cochran and Cox).
[[nodiscard]] double repeat_half_width(std::span<const double> pass_logs, double between_share);

struct RepeatBasis {
  double clock_step_ns = 0;                  // 0: not known
  const Calibration* calibration = nullptr;  // of this machine; may be null
};

// Fills cell.repeat for each timed number; a number is left out where the cell is not ok, has fewer
// than two timed passes, too few samples, or no histograms.
void state_repeat(CellResult& cell, const RepeatBasis& basis);

}  // namespace allocmark

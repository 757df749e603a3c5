// How far apart two runs of the same thing come, where no calibration says it. Flows in: what the
// cells' numbers changed by, and how fast the processor was before each pass; flows out: the bound
// below which a change is not called. results/compare/VERDICTS.md, "What a verdict says".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// What can make two runs of the same thing differ.
struct Disturbance {
  // By how much longer the same host code took before the passes of one side than before those of
  // the other: a logarithm, 0 or more. 0 where it was not measured.
  double host_shift = 0;
  // Either run began while others were at work.
  bool beside_other_work = false;
};

// A cell and the run that it is of.
struct RunCell {
  const Environment& environment;
  const CellResult& cell;
};
[[nodiscard]] Disturbance disturbance(RunCell base, RunCell now);

// Of a number in all cells of a comparison, as logarithms.
class CellShifts {
 public:
  CellShifts() = default;
  CellShifts(std::string_view number, std::vector<double> log_shifts);

  // A share: 0.07 for 7 %. It is between_runs of timed_numbers.h where
  // - the cells differ less from each other: three robust standard deviations show a machine that
  //   is noisier. Six cells show it.
  // - nothing disturbed either run.
  // - a third of the cells changes alike. A single process can differ by more, in all its passes.
  [[nodiscard]] double bound(double log_shift, const Disturbance& disturbance) const;

 private:
  double between_runs_ = 0;
  double scatter_ = 0;
  std::vector<double> log_shifts_;
};

// What the bound rests on, where the reader can do something about it.
[[nodiscard]] std::string bound_source(bool is_calibrated, const Disturbance& disturbance);

}  // namespace allocmark

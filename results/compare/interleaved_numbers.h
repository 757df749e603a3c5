// One timed number of one cell, measured in rounds in which two sides took turns. Flows in: the
// rounds' pairs of processes; flows out: the number of both sides with the differences within the
// rounds, and the verdict on their shift. Neither times nor checks allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"
#include "results/compare/interleaved_cells.h"
#include "results/compare/timed_numbers.h"
#include "results/statistics/shift.h"

namespace allocmark {

// A side's value is known up to a bucket, 1/64 of an octave wide at most; a smaller spread of the
// differences between two of them is the buckets', not the rounds'.
inline constexpr double kPairedSpreadMin = 1.4142135623730951 / 64 / 3.4641016151377544;
// What every number of a run is judged by.
struct RoundRule {
  const ComparePolicy& policy;
  double clock_step_ns = 0;                  // of the coarser side
  std::uint32_t first_look_round_count = 1;  // rounds before any verdict
};

// Whether any process of either side has the number.
[[nodiscard]] bool is_known(const TimedNumber& number, const std::vector<RoundPair>& pairs);

// Both sides' values, and the differences of the rounds as logarithms. `differences` is empty where
// they prove nothing; then the number has its verdict already.
[[nodiscard]] NumberComparison number_of_rounds(const TimedNumber& timed,
                                                const std::vector<RoundPair>& pairs,
                                                const RoundRule& rule,
                                                std::vector<double>& differences);

// The verdict on a number whose differences are shifted by `shift`.
void judge_number(const TimedNumber& timed, const Shift& shift, std::size_t round_count,
                  const RoundRule& rule, double p_value_adjusted, NumberComparison& number);

}  // namespace allocmark

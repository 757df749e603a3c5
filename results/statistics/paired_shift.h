// By how much one of two things is slower where both were measured many times in turn: every round
// gives one difference, and what disturbs a round disturbs both. Flows in: a difference per round
// (of logarithms, so that a shift is a ratio); flows out: the shift with its interval and p-value.
// Neither times nor checks allocators.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "results/statistics/shift.h"

namespace allocmark {

// From this many rounds ranks decide; fewer cannot give the small p-values that are left after the
// correction for many numbers (10: 0.002, 16: 3e-5).
inline constexpr std::size_t kSignedRankCountMin = 10;

// The spread of one number's differences around their mean; nothing for fewer than two.
[[nodiscard]] std::optional<Spread> paired_spread(std::span<const double> differences);

// From kSignedRankCountMin differences: the median of their pairwise means (Hodges and Lehmann),
// with the interval and p-value of Wilcoxon's signed-rank distribution, whatever the differences'
// distribution is as long as it is symmetric; a disturbed round changes little. With fewer: their
// mean with Student's t, the prior added to the spread. Nothing for fewer than two.
[[nodiscard]] std::optional<Shift> estimate_paired_shift(std::span<const double> differences,
                                                         const ShiftSettings& settings);

// P(W <= w) of the sum of the ranks of n differences that are positive, without ties; exact up to n
// = 100, beyond it the normal approximation.
[[nodiscard]] double signed_rank_cdf(std::size_t n, double w);

}  // namespace allocmark

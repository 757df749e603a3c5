// Whether two small groups of numbers differ, by how much, and how sure that is. Flows in: one
// number per timed pass (the logarithm of a latency, so that a shift is a ratio); flows out: a
// shift with its interval and p-value, and p-values corrected for having looked at many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace allocmark {

// From this many passes on each side ranks decide; fewer cannot give the small p-values that are
// left after the correction for many cells (10 and 10: 1.1e-5).
inline constexpr std::size_t kRankPassCountMin = 10;

// The spread of one cell's passes.
struct Spread {
  double variance = 0;
  double degrees = 0;  // of freedom
};

// What the other cells of the same comparison say of a cell's spread; degrees 0: nothing.
using SpreadPrior = Spread;

// Fits the prior to many cells' spreads by the moments of their logarithms (Smyth 2004, "Linear
// models and empirical Bayes methods", section 6.2). Cells that are alike give many degrees, cells
// that are not give few. Variances must be above 0; fewer than 8 cells give no prior.
[[nodiscard]] SpreadPrior fit_spread_prior(std::span<const Spread> spreads);

struct ShiftSettings {
  double confidence = 0.95;
  double spread_min = 0;  // standard deviation below which a spread is not believed (resolution)
  SpreadPrior prior = {};
};

enum class ShiftMethod { Student, Ranks };

struct Shift {
  double estimate = 0, low = 0, high = 0;  // now - base
  double p_value = 1;                      // two-sided, of no shift
  ShiftMethod method = ShiftMethod::Student;
};

// Both groups' variance around their own means. Nothing where a group has fewer than two.
[[nodiscard]] std::optional<Spread> pooled_spread(std::span<const double> base,
                                                  std::span<const double> now);

// With kRankPassCountMin numbers on each side: Hodges and Lehmann's shift, the median of all
// differences, with the interval and p-value of the Mann-Whitney distribution. With fewer: the
// difference of the means with Student's t on the pooled spread, the prior added to it. Nothing
// where a group has fewer than two.
[[nodiscard]] std::optional<Shift> estimate_shift(std::span<const double> base,
                                                  std::span<const double> now,
                                                  const ShiftSettings& settings);

// P(U <= u) of the Mann-Whitney statistic of groups of n and m without ties; exact up to n + m =
// 60, beyond it the normal approximation.
[[nodiscard]] double mann_whitney_cdf(std::size_t n, std::size_t m, std::uint64_t u);

// Each p-value corrected so that calling everything at or below q a difference gives an expected
// share of at most q of false calls (Benjamini and Hochberg 1995). Never below its p-value.
[[nodiscard]] std::vector<double> benjamini_hochberg(std::span<const double> p_values);

}  // namespace allocmark

// Student's t with a prior, Mann-Whitney and Hodges-Lehmann, Benjamini-Hochberg.
#include "results/statistics/shift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <boost/math/distributions/normal.hpp>
#include <boost/math/special_functions/digamma.hpp>
#include <boost/math/special_functions/trigamma.hpp>

#include "base/median.h"
#include "results/statistics/student.h"

namespace allocmark {
namespace {

constexpr std::size_t kExactTotalMax = 60;
constexpr std::size_t kPriorCellCountMin = 8;
// More would trust that all cells are alike beyond what any number of cells can show.
constexpr double kPriorDegreesMax = 20;

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares(std::span<const double> values) {
  const double centre = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - centre) * (value - centre);
  return sum;
}

// x with trigamma(x) = y, by bisection on the logarithm: trigamma falls from infinity to 0.
double inverse_trigamma(double y) {
  double low = std::log(1e-3);
  double high = std::log(1e6);
  for (int step = 0; step < 100; ++step) {
    const double middle = (low + high) / 2;
    (boost::math::trigamma(std::exp(middle)) > y ? low : high) = middle;
  }
  return std::exp((low + high) / 2);
}

// P(U <= u) for every u from 0 to n * m.
std::vector<double> mann_whitney_cdfs(std::size_t n, std::size_t m) {
  const std::size_t u_max = n * m;
  std::vector<double> cdf(u_max + 1);
  if (n + m > kExactTotalMax) {
    const double product = static_cast<double>(u_max);
    const double spread = std::sqrt(product * static_cast<double>(n + m + 1) / 12);
    const boost::math::normal distribution(product / 2, spread);
    for (std::size_t u = 0; u <= u_max; ++u) {
      cdf[u] = boost::math::cdf(distribution, static_cast<double>(u) + 0.5);
    }
    return cdf;
  }
  // ways[k][s]: choices of k of the first elements whose ranks exceed the smallest possible ones by
  // s in all.
  std::vector<std::vector<double>> ways(n + 1, std::vector<double>(u_max + 1, 0.0));
  ways[0][0] = 1;
  for (std::size_t element = 0; element < n + m; ++element) {
    for (std::size_t k = std::min(n, element + 1); k >= 1; --k) {
      const std::size_t gain = element - (k - 1);
      if (gain > m) continue;
      for (std::size_t s = gain; s <= u_max; ++s) ways[k][s] += ways[k - 1][s - gain];
    }
  }
  const double total = std::accumulate(ways[n].begin(), ways[n].end(), 0.0);
  std::partial_sum(ways[n].begin(), ways[n].end(), cdf.begin());
  for (double& value : cdf) value /= total;
  return cdf;
}

Shift rank_shift(std::span<const double> base, std::span<const double> now,
                 const ShiftSettings& settings) {
  std::vector<double> differences;
  std::uint64_t not_above = 0;
  std::uint64_t not_below = 0;
  for (const double after : now) {
    for (const double before : base) {
      differences.push_back(after - before);
      // Ties count for "no shift" on both sides, which errs towards not calling one.
      not_above += after <= before ? 1 : 0;
      not_below += after >= before ? 1 : 0;
    }
  }
  std::sort(differences.begin(), differences.end());
  const std::vector<double> cdf = mann_whitney_cdfs(base.size(), now.size());
  // The k-th smallest and k-th largest difference, with the largest k whose tails are small enough.
  std::size_t k = 0;
  while (k < differences.size() / 2 && cdf[k] <= (1 - settings.confidence) / 2) ++k;
  if (k == 0) k = 1;
  return {.estimate = median(differences),
          .low = differences[k - 1],
          .high = differences[differences.size() - k],
          .p_value = std::min(1.0, 2 * cdf[std::min(not_above, not_below)]),
          .method = ShiftMethod::Ranks};
}

}  // namespace

SpreadPrior fit_spread_prior(std::span<const Spread> spreads) {
  if (spreads.size() < kPriorCellCountMin) return {};
  std::vector<double> logs;
  double expected = 0;
  for (const Spread& spread : spreads) {
    const double half = spread.degrees / 2;
    logs.push_back(std::log(spread.variance) - boost::math::digamma(half) + std::log(half));
    expected += boost::math::trigamma(half);
  }
  const auto count = static_cast<double>(logs.size());
  const double excess = squares(logs) / (count - 1) - expected / count;
  const double degrees =
      excess <= 0 ? kPriorDegreesMax : std::min(kPriorDegreesMax, 2 * inverse_trigamma(excess));
  const double variance =
      std::exp(mean(logs) + boost::math::digamma(degrees / 2) - std::log(degrees / 2));
  return {.variance = variance, .degrees = degrees};
}

std::optional<Spread> pooled_spread(std::span<const double> base, std::span<const double> now) {
  if (base.size() < 2 || now.size() < 2) return std::nullopt;
  const auto degrees = static_cast<double>(base.size() + now.size() - 2);
  return Spread{.variance = (squares(base) + squares(now)) / degrees, .degrees = degrees};
}

std::optional<Shift> estimate_shift(std::span<const double> base, std::span<const double> now,
                                    const ShiftSettings& settings) {
  if (base.size() < 2 || now.size() < 2) return std::nullopt;
  const bool many = base.size() >= kRankPassCountMin && now.size() >= kRankPassCountMin;
  return many ? rank_shift(base, now, settings)
              : student_shift(
                    mean(now) - mean(base), *pooled_spread(base, now),
                    1.0 / static_cast<double>(base.size()) + 1.0 / static_cast<double>(now.size()),
                    settings);
}

double mann_whitney_cdf(std::size_t n, std::size_t m, std::uint64_t u) {
  const std::vector<double> cdf = mann_whitney_cdfs(n, m);
  return u < cdf.size() ? cdf[u] : 1;
}

std::vector<double> benjamini_hochberg(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size(), 1);
  double lowest = 1;
  for (std::size_t place = order.size(); place-- > 0;) {
    const double scaled =
        p_values[order[place]] * static_cast<double>(order.size()) / static_cast<double>(place + 1);
    lowest = std::min(lowest, scaled);
    adjusted[order[place]] = lowest;
  }
  return adjusted;
}

}  // namespace allocmark

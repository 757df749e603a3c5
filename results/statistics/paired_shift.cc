// Wilcoxon's signed ranks, and Student's t for few rounds.
#include "results/statistics/paired_shift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include <boost/math/distributions/normal.hpp>

#include "base/median.h"
#include "results/statistics/student.h"

namespace allocmark {
namespace {

constexpr std::size_t kExactCountMax = 100;

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// P(W <= w) for every w from 0 to n(n + 1)/2.
std::vector<double> signed_rank_cdfs(std::size_t n) {
  const std::size_t w_max = n * (n + 1) / 2;
  std::vector<double> cdf(w_max + 1, 0.0);
  if (n > kExactCountMax) {
    const double middle = static_cast<double>(w_max) / 2;
    const double spread = std::sqrt(middle * static_cast<double>(2 * n + 1) / 6);
    const boost::math::normal distribution(middle, spread);
    for (std::size_t w = 0; w <= w_max; ++w) {
      cdf[w] = boost::math::cdf(distribution, static_cast<double>(w) + 0.5);
    }
    return cdf;
  }
  // Each rank is in the sum or not, with even chances.
  cdf[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t w = w_max + 1; w-- > 0;) {
      cdf[w] = (cdf[w] + (w >= rank ? cdf[w - rank] : 0.0)) / 2;
    }
  }
  std::partial_sum(cdf.begin(), cdf.end(), cdf.begin());
  return cdf;
}

// The sums of the ranks of differences that are not below and not above 0. Differences of 0 and
// ties count for both sides, which errs towards calling nothing.
struct RankSums {
  double not_below = 0, not_above = 0;
};

RankSums rank_sums(std::span<const double> differences) {
  std::vector<double> sizes;
  for (const double difference : differences) sizes.push_back(std::abs(difference));
  std::sort(sizes.begin(), sizes.end());
  RankSums sums;
  for (const double difference : differences) {
    // The highest rank among equals.
    const auto above = std::upper_bound(sizes.begin(), sizes.end(), std::abs(difference));
    const auto rank = static_cast<double>(above - sizes.begin());
    if (difference >= 0) sums.not_below += rank;
    if (difference <= 0) sums.not_above += rank;
  }
  return sums;
}

Shift signed_rank_shift(std::span<const double> differences, double confidence) {
  std::vector<double> means;
  for (std::size_t i = 0; i < differences.size(); ++i) {
    for (std::size_t j = i; j < differences.size(); ++j) {
      means.push_back((differences[i] + differences[j]) / 2);
    }
  }
  std::sort(means.begin(), means.end());
  const std::vector<double> cdf = signed_rank_cdfs(differences.size());
  std::size_t k = 0;
  while (k < means.size() / 2 && cdf[k] <= (1 - confidence) / 2) ++k;
  if (k == 0) k = 1;
  const RankSums sums = rank_sums(differences);
  const auto w = static_cast<std::size_t>(std::min(sums.not_below, sums.not_above));
  const double p_value = w < cdf.size() ? std::min(1.0, 2 * cdf[w]) : 1.0;
  return {.estimate = median(means),
          .low = means[k - 1],
          .high = means[means.size() - k],
          .p_value = p_value,
          .method = ShiftMethod::Ranks};
}

}  // namespace

std::optional<Spread> paired_spread(std::span<const double> differences) {
  if (differences.size() < 2) return std::nullopt;
  const double centre = mean_of(differences);
  double squares = 0;
  for (const double difference : differences) {
    squares += (difference - centre) * (difference - centre);
  }
  const auto degrees = static_cast<double>(differences.size() - 1);
  return Spread{.variance = squares / degrees, .degrees = degrees};
}

std::optional<Shift> estimate_paired_shift(std::span<const double> differences,
                                           const ShiftSettings& settings) {
  if (differences.size() < 2) return std::nullopt;
  return differences.size() >= kSignedRankCountMin
             ? signed_rank_shift(differences, settings.confidence)
             : student_shift(mean_of(differences), *paired_spread(differences),
                             1.0 / static_cast<double>(differences.size()), settings);
}

double signed_rank_cdf(std::size_t n, double w) {
  if (w < 0) return 0;
  const std::vector<double> cdf = signed_rank_cdfs(n);
  const auto index = static_cast<std::size_t>(w);
  return index < cdf.size() ? cdf[index] : 1;
}

}  // namespace allocmark

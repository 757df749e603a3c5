// Sample counts that percentiles need.
#include "results/statistics/percentile.h"

#include <cmath>

#include <boost/math/distributions/normal.hpp>

namespace allocmark {

std::uint64_t sample_count_min(Percentile percentile) {
  const std::uint64_t beyond = percentile.denominator - percentile.numerator;
  return (kSamplesBeyondPercentile * percentile.denominator + beyond - 1) / beyond;
}

std::uint64_t sample_count_for_margin(Percentile percentile, double margin, double confidence) {
  constexpr double kMultiple = 8192;
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + confidence / 2);
  const double q =
      static_cast<double>(percentile.numerator) / static_cast<double>(percentile.denominator);
  const double exact = z * z * q * (1 - q) / (margin * margin);
  return static_cast<std::uint64_t>(std::ceil(exact / kMultiple) * kMultiple);
}

bool has_enough_samples(Percentile percentile, std::uint64_t sample_count) {
  return sample_count >= sample_count_min(percentile);
}

}  // namespace allocmark

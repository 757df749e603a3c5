// Wilson's score interval.
#include "results/statistics/proportion.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/normal.hpp>

namespace allocmark {

std::optional<Proportion> wilson_interval(std::uint64_t hit_count, std::uint64_t trial_count,
                                          double confidence) {
  if (trial_count == 0 || hit_count > trial_count) return std::nullopt;
  if (!(confidence > 0 && confidence < 1)) return std::nullopt;
  const double z = boost::math::quantile(boost::math::normal(), 0.5 + confidence / 2);
  const double n = static_cast<double>(trial_count);
  const double share = static_cast<double>(hit_count) / n;
  const double scale = 1 + z * z / n;
  const double centre = (share + z * z / (2 * n)) / scale;
  const double half = z / scale * std::sqrt(share * (1 - share) / n + z * z / (4 * n * n));
  // At the ends the formula gives exactly 0 and 1; rounding must not hide that.
  return Proportion{.estimate = share,
                    .low = hit_count == 0 ? 0 : std::max(0.0, centre - half),
                    .high = hit_count == trial_count ? 1 : std::min(1.0, centre + half)};
}

}  // namespace allocmark

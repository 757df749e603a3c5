// See student.h.
#include "results/statistics/student.h"

#include <algorithm>
#include <cmath>

#include <boost/math/distributions/students_t.hpp>

namespace allocmark {

Shift student_shift(double estimate, Spread spread, double weight, const ShiftSettings& settings) {
  spread.variance = std::max(spread.variance, settings.spread_min * settings.spread_min);
  const double degrees = spread.degrees + settings.prior.degrees;
  const double variance =
      (spread.variance * spread.degrees + settings.prior.variance * settings.prior.degrees) /
      degrees;
  const double error = std::sqrt(variance * weight);
  Shift shift{.estimate = estimate, .method = ShiftMethod::Student};
  const boost::math::students_t distribution(degrees);
  const double reach =
      error * boost::math::quantile(complement(distribution, (1 - settings.confidence) / 2));
  shift.low = shift.estimate - reach;
  shift.high = shift.estimate + reach;
  if (error == 0) {
    shift.p_value = shift.estimate == 0 ? 1 : 0;
  } else {
    shift.p_value =
        2 * boost::math::cdf(complement(distribution, std::abs(shift.estimate) / error));
  }
  return shift;
}

}  // namespace allocmark

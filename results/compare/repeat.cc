// Prediction intervals from passes and from what is known of runs.
#include "results/compare/repeat.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include <boost/math/distributions/students_t.hpp>

#include "base/assert.h"
#include "results/compare/timed_numbers.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

constexpr double kNormal95 = 1.959964;
// A stored quantile is its bucket's middle: at most this share away.
constexpr double kBucketShare = 1.0 / 128;
// What is stored as 0 means not known.
constexpr double kLowestNs = 1e-3;

RepeatInterval interval_of(const CellResult& cell, const TimedNumber& number,
                           const RepeatBasis& basis) {
  const double value = stored_value(cell, number).value_or(0);
  const LatencySummary& total = number.allocate ? cell.allocate.total : cell.deallocate.total;
  if (value <= 0 || !has_enough_samples(number.percentile, total.count)) return {};
  const std::vector<double> logs = pass_logs(cell, number, basis.clock_step_ns);
  if (logs.size() < 2) return {};
  const double share = between_runs_share(number.name, basis.calibration);
  const double half = repeat_half_width(logs, share);
  // The other run's number is stored at a step of the clock and in a bucket, too.
  const double resolution_ns = basis.clock_step_ns / 2 + value * kBucketShare;
  return {.low_ns = std::max(value * std::exp(-half) - resolution_ns, kLowestNs),
          .high_ns = value * std::exp(half) + resolution_ns,
          .between_share = share};
}

}  // namespace

double between_runs_share(std::string_view number, const Calibration* calibration) {
  const NoiseBound* bound = calibration == nullptr ? nullptr : calibration->find(number);
  if (bound != nullptr && bound->shift_p95 > 0) return bound->shift_p95;
  return number.ends_with("p99") ? kBetweenRunsP99 : kBetweenRunsP50;
}

double repeat_half_width(std::span<const double> pass_logs, double between_share) {
  ALLOCMARK_ASSERT(pass_logs.size() >= 2);
  const auto n = static_cast<double>(pass_logs.size());
  double sum = 0;
  for (const double value : pass_logs) sum += value;
  double squares = 0;
  for (const double value : pass_logs) squares += (value - sum / n) * (value - sum / n);
  // Both runs have n passes; the bound between runs holds for a difference already.
  const double passes = 2 * squares / (n - 1) / n;
  const double runs = std::pow(std::log1p(between_share) / kNormal95, 2);
  const double total = passes + runs;
  if (total == 0) return 0;
  const boost::math::students_t distribution(n - 1);
  const double student = boost::math::quantile(distribution, 0.975);
  return (passes * student + runs * kNormal95) / total * std::sqrt(total);
}

void state_repeat(CellResult& cell, const RepeatBasis& basis) {
  cell.repeat = {};
  if (cell.status != CellStatus::Ok) return;
  RepeatInterval* const places[] = {&cell.repeat.allocate_p50, &cell.repeat.allocate_p99,
                                    &cell.repeat.deallocate_p50, &cell.repeat.deallocate_p99};
  const auto numbers = latency_numbers();
  ALLOCMARK_ASSERT(numbers.size() == std::size(places));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    *places[i] = interval_of(cell, numbers[i], basis);
  }
}

}  // namespace allocmark

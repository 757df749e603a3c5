// The slope of memory over steps.
#include "harness/core/check/growth.h"

#include "results/statistics/slope.h"

namespace allocmark {
namespace {

// A slope compares every pair of points; more than these are thinned.
constexpr std::size_t kPointCountMax = 256;

}  // namespace

std::optional<MemoryGrowth> Growth::result() const {
  if (values_.size() < kStepCountMin) return std::nullopt;
  const std::size_t first = values_.size() / 2;
  const std::size_t stride = (values_.size() - first + kPointCountMax - 1) / kPointCountMax;
  std::vector<double> points;
  for (std::size_t step = first; step < values_.size(); step += stride) {
    points.push_back(values_[step]);
  }
  const std::optional<Slope> slope = estimate_slope(points);
  if (!slope) return std::nullopt;
  const auto per_step = static_cast<double>(stride);
  return MemoryGrowth{.bytes_per_step = slope->estimate / per_step,
                      .bytes_per_step_low = slope->low / per_step,
                      .bytes_per_step_high = slope->high / per_step,
                      .step_count = values_.size() - first};
}

}  // namespace allocmark

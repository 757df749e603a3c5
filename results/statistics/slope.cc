// The slope of values in a row.
#include "results/statistics/slope.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace allocmark {
namespace {

constexpr std::size_t kValueCountMin = 8;  // below, the normal approximation of tau is poor
constexpr double kNormal975 = 1.959963984540054;

}  // namespace

std::optional<Slope> estimate_slope(std::span<const double> values) {
  const std::size_t count = values.size();
  if (count < kValueCountMin) return std::nullopt;
  std::vector<double> slopes;
  for (std::size_t left = 0; left < count; ++left) {
    for (std::size_t right = left + 1; right < count; ++right) {
      slopes.push_back((values[right] - values[left]) / static_cast<double>(right - left));
    }
  }
  std::sort(slopes.begin(), slopes.end());
  const auto n = static_cast<double>(count);
  const double spread = kNormal975 * std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  const auto pairs = static_cast<double>(slopes.size());
  const double last = pairs - 1;
  const auto at = [&](double rank) {
    return slopes[static_cast<std::size_t>(std::clamp(rank, 0.0, last))];
  };
  const std::size_t middle = slopes.size() / 2;
  const bool odd = slopes.size() % 2 == 1;
  return Slope{.estimate = odd ? slopes[middle] : (slopes[middle - 1] + slopes[middle]) / 2,
               .low = at(std::floor((pairs - spread) / 2)),
               .high = at(std::ceil((pairs + spread) / 2))};
}

}  // namespace allocmark

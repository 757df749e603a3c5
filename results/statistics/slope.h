// The slope of values in a row with its uncertainty. Values flow in; a slope per place flows out.
#pragma once

#include <optional>
#include <span>

namespace allocmark {

struct Slope {
  double estimate = 0, low = 0, high = 0;  // per place
};

// The median of the slopes of all pairs (Theil 1950, Sen 1968) with the 95 % interval that
// Kendall's tau gives: a few outliers do not move it, and no distribution is assumed. Nothing for
// fewer than 8 values.
[[nodiscard]] std::optional<Slope> estimate_slope(std::span<const double> values);

}  // namespace allocmark

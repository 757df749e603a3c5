// A shift of normally distributed numbers by Student's t.
#pragma once

#include "results/statistics/shift.h"

namespace allocmark {

// `estimate` is a mean, or a difference of means, of numbers with this spread: its variance is the
// numbers' times `weight` (1/n, or 1/n + 1/m). The settings' prior is added to the spread.
[[nodiscard]] Shift student_shift(double estimate, Spread spread, double weight,
                                  const ShiftSettings& settings);

}  // namespace allocmark

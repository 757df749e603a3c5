// What a setting costs, in words.
#pragma once

#include <string>

#include "results/answer/answer.h"

namespace allocmark {

// "0.80 ms per step (+0.70 ms against unset), dear in 1 of 3 passes (up to 12.0 ms)".
[[nodiscard]] std::string short_cost(const RankedCell& ranked, const Answer& answer);

// " One pass has no range.": why a difference that the sentence names has none, or, without a
// named cell, one that it denies. Empty where there is a range.
[[nodiscard]] std::string missing_range(const Answer& answer, const RankedCell* named);

// Between what a step gets longer, where the device's work is not known and costs are times per
// step; empty elsewhere.
[[nodiscard]] std::string step_bounds(const CellGroup& group, const Answer& answer);

}  // namespace allocmark

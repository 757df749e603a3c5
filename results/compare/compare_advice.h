// What somebody can do about a number that differs: one sentence for a line of the findings.
// Neither times nor checks allocators.
#pragma once

#include <string>

#include "results/compare/compare.h"

namespace allocmark {

// Empty where there is nothing to say.
[[nodiscard]] std::string advice_for(const CellComparison& cell, const NumberComparison& number);

}  // namespace allocmark

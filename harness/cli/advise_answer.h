// What measured candidates say: cells flow in, costs and sentences flow out.
#pragma once

#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// Request P99, time per step or time per pass of the cell with that config string, in ms; empty
// where it was not measured.
[[nodiscard]] std::string measured_cost(const std::vector<CellResult>& cells,
                                        const std::string& conf);

// The answer of results/answer over the cells.
[[nodiscard]] std::vector<std::string> measured_answer(const std::vector<CellResult>& cells);

}  // namespace allocmark

// What the finalists cost, as their cells say it or as the search models it. Facts flow in; costs
// in the order of their rank flow out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/tools/advise/advise_print.h"
#include "harness/tools/advise/verdict.h"
#include "results/answer/answer.h"

namespace allocmark {

// The cells as one experiment.
struct Measured {
  std::vector<CellGroup> groups;
  Answer answer;
};
// Nothing where none was measured.
[[nodiscard]] std::optional<Measured> measured_of(const std::vector<CellResult>& cells);

// Of that setting; null where it was not measured.
[[nodiscard]] const CellResult* cell_of(const Advice& advice, const std::string& setting);

// In the order of the answer's rank, unset where its cost puts it first.
[[nodiscard]] std::vector<FinalistCost> costs_of(const Advice& advice,
                                                 const std::optional<Measured>& measured);

}  // namespace allocmark

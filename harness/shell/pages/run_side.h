// A run as one side of a comparison, from its folder or its results file.
#pragma once

#include <string>

#include "results/compare/compare.h"

namespace allocmark {

// A run's folder with its plan, or a results file alone, whose plan is then not known. Throws
// EnvironmentError where it cannot be read.
[[nodiscard]] RunSide read_side(const std::string& label, const std::string& path,
                                CellDetail detail = CellDetail::Outline);

}  // namespace allocmark

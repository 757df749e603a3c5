// Cells that one side or both did not measure: they crashed, timed out, broke a rule or were
// skipped. Flows in: both results; flows out: the verdict. Neither times nor checks allocators.
#pragma once

#include <string>

#include "results/compare/compare.h"

namespace allocmark {

// "NEW: crashed: ended by SIGSEGV".
[[nodiscard]] std::string outcome_text(const std::string& label, const CellResult& cell);

// At least one of the two is not measured.
[[nodiscard]] CellComparison compare_outcomes(const std::string& base_label, const CellResult& base,
                                              const std::string& now_label, const CellResult& now);

}  // namespace allocmark

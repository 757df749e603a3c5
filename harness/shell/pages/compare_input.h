// What 'compare', its confirmation and A/B runs read besides runs: shares and policies. Texts and
// paths flow in; plain data flows out.
#pragma once

#include <string>

#include "results/compare/compare.h"
#include "results/compare/compare_policy.h"

namespace allocmark {

// "3%" or "0.03"; throws UsageError naming `option`.
[[nodiscard]] double parse_share(const std::string& text, const std::string& option);

// The policy file, or the built-in policy where `path` is empty, with its smallest effect replaced
// where one is given.
[[nodiscard]] ComparePolicy read_policy(const std::string& path, const std::string& effect_min);

// A run as one side of a comparison, from its folder or its results file.

// A run's folder with its plan, or a results file alone, whose plan is then not known. Throws
// EnvironmentError where it cannot be read.
[[nodiscard]] RunSide read_side(const std::string& label, const std::string& path,
                                CellDetail detail = CellDetail::Outline);

}  // namespace allocmark

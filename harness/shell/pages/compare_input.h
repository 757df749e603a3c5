// What 'compare', its confirmation and A/B runs read besides runs: shares and policies. Texts and
// paths flow in; plain data flows out.
#pragma once

#include <string>

#include "results/compare/compare_policy.h"

namespace allocmark {

// "3%" or "0.03"; throws UsageError naming `option`.
[[nodiscard]] double parse_share(const std::string& text, const std::string& option);

// The policy file, or the built-in policy where `path` is empty, with its smallest effect replaced
// where one is given.
[[nodiscard]] ComparePolicy read_policy(const std::string& path, const std::string& effect_min);

}  // namespace allocmark

// Every threshold of 'allocmark qualify', from one JSON file: what ships (thresholds.json of this
// folder, built in) and a user's file on top of it. Text flows in, limits by key flow out.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

using Thresholds = std::map<std::string, Limit, std::less<>>;

// What a report has instead of a file's path.
inline constexpr const char* kShippedThresholds = "those that ship";

// The shipped file's text, to start one's own from.
[[nodiscard]] std::string_view default_thresholds_text();
[[nodiscard]] Thresholds default_thresholds();

// Every key that `text` has replaces that of `base`. Throws UsageError naming `where` and the key
// where the text is no JSON object of limits, or a key is not known in `base`.
[[nodiscard]] Thresholds with_thresholds(const Thresholds& base, std::string_view text,
                                         const std::string& where);

}  // namespace allocmark::qualify

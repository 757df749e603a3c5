// The causes of an OOM as tables and charts call them. Stored names are in oom_causes.h.
#pragma once

#include <string_view>

#include "results/oom_causes.h"

namespace allocmark {

// As headings and legends have it: "kept for other streams".
[[nodiscard]] std::string_view short_words(OomCause cause);

}  // namespace allocmark

// What private pools of graphs and MemPools held over the history, and what went back to the device
// at once, in words.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "harness/tools/why/why.h"

namespace allocmark {

// Empty where no pool ever had memory.
[[nodiscard]] std::string pools_text(const Why& why);
// The same as a table of Markdown.
[[nodiscard]] std::string pools_markdown(const Why& why);
// Likewise; null where no pool ever had memory.
[[nodiscard]] nlohmann::ordered_json pools_json(const Why& why);
// The same and what only the page shows.
[[nodiscard]] nlohmann::ordered_json pools_page_json(const Why& why);

}  // namespace allocmark

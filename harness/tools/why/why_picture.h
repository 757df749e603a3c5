// What the allocator held when a request failed, in words.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>
#include "harness/tools/why/why.h"

namespace allocmark {

// "private pool (0, 1)"
[[nodiscard]] std::string pool_name(const Why& why, std::uint32_t pool);
// Where the reserved memory was.
[[nodiscard]] std::string picture(const Why& why);
// What the allocator counts as live; 0 where the replay does not know the same blocks.
[[nodiscard]] std::uint64_t live_rounded(const Why& why);
// The segments with the most free memory; empty where there is too little free to matter.
[[nodiscard]] std::string held_text(const Why& why);

// What private pools of graphs and MemPools held over the history, and what went back to the device
// at once, in words.

// Empty where no pool ever had memory.
[[nodiscard]] std::string pools_text(const Why& why);
// The same as a table of Markdown.
[[nodiscard]] std::string pools_markdown(const Why& why);
// Likewise; null where no pool ever had memory.
[[nodiscard]] nlohmann::ordered_json pools_json(const Why& why);
// The same and what only the page shows.
[[nodiscard]] nlohmann::ordered_json pools_page_json(const Why& why);

}  // namespace allocmark

// What the allocator held when a request failed, in words.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace allocmark

// What a config string of the caching allocator means: the effective values, and which keys do
// nothing or stand in each other's way.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "allocators/caching/release.h"

namespace allocmark::caching {

// Several lines for a person, ending in a newline. A string that strict mode rejects gets its
// error, and what PyTorch would do with it.
[[nodiscard]] std::string explain_conf(std::string_view conf, const Rules& rules = newest_rules());

// Every key that the release knows: since when, what was different in another release, and what
// ignores it. A line each.
[[nodiscard]] std::string explain_keys(const Rules& rules);

// Which of its keys do nothing or stand in each other's way; empty for a good string without such,
// and for one that strict mode rejects.
[[nodiscard]] std::vector<std::string> conf_notes(std::string_view conf,
                                                  const Rules& rules = newest_rules());

// Which requests make the cache grow, again and again, with a good string.
[[nodiscard]] std::vector<std::string> conf_effects(std::string_view conf, const Rules& rules);

// Faults of the release that a good string runs into and that damage a program's memory.
[[nodiscard]] std::vector<std::string> conf_dangers(std::string_view conf, const Rules& rules);

}  // namespace allocmark::caching

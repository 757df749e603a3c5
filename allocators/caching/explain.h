// What a config string of the caching allocator means: the effective values, and which keys do
// nothing or stand in each other's way.
#pragma once

#include <string>
#include <string_view>

namespace allocmark::caching {

// Several lines for a person, ending in a newline. A string that strict mode rejects gets its
// error, and what PyTorch would do with it.
[[nodiscard]] std::string explain_conf(std::string_view conf);

}  // namespace allocmark::caching

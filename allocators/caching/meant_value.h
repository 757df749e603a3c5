// What a value of PyTorch's config string that is refused was meant to be: "128MB" is 128.
#pragma once

#include <string>
#include <string_view>

namespace allocmark::caching {

// "did you mean max_split_size_mb:128? the number is in MiB"; empty where nothing is meant.
[[nodiscard]] std::string meant_value(std::string_view key, std::string_view value);

}  // namespace allocmark::caching

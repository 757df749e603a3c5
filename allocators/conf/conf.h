// Splitting of a config string into key:value pairs, shared by all backends. The grammar is
// PyTorch's, key:value,key:value with values that are one word or a [list], read strictly: whatever
// PyTorch would swallow without a word is an error here. Meaning and range of the values are the
// backend's affair.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace allocmark {

struct ConfPair {
  std::string key;
  std::string value;             // as written, without blanks around it; a list keeps its brackets
  std::size_t key_column = 0;    // 1-based, in the whole config string
  std::size_t value_column = 0;  // 1-based; first character of `value`
};

struct ConfSplit {
  std::vector<ConfPair> pairs;  // in the order written; those before the error where there is one
  std::optional<ErrorText> error;  // the first problem, with key, column and what is allowed
};

// Splits `conf`; every key must be one of known_keys and may stand only once. The empty string is
// no pairs. Blanks around words and one trailing comma are allowed, because they change nothing.
[[nodiscard]] ConfSplit split_conf(std::string_view conf, std::span<const std::string> known_keys);

// A config string as users give it: "unset" is none.
[[nodiscard]] std::string conf_of_user(std::string_view text);

// The error of a config string as every command tells it: with the option and the text that the
// user gave, and the allocator that refused it.
[[nodiscard]] ErrorText told_conf_error(ErrorText error, std::string_view option,
                                        std::string_view text, std::string_view allocator);

// "config string, key max_split_size_mb, column 19": how every error about a config string names
// its place.
[[nodiscard]] std::string conf_place(std::string_view key, std::size_t column);

}  // namespace allocmark

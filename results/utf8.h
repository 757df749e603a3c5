// How all text is stored: as valid UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace allocmark {

// The text with every byte that is not part of valid UTF-8 replaced by U+FFFD.
[[nodiscard]] std::string valid_utf8(std::string_view text);

}  // namespace allocmark

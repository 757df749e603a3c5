// How many keys a config string sets: of settings that do as well, the one with fewer is advised.
#pragma once

#include <cstddef>
#include <string_view>

namespace allocmark {

// Commas inside of brackets part values, not keys. 0 of the empty string.
[[nodiscard]] constexpr std::size_t key_count(std::string_view conf) {
  std::size_t count = conf.empty() ? 0 : 1;
  int depth = 0;
  for (const char character : conf) {
    depth += character == '[' ? 1 : character == ']' ? -1 : 0;
    if (character == ',' && depth == 0) ++count;
  }
  return count;
}

}  // namespace allocmark

// A number that a whole text says, for options, keys and files.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace allocmark {

// Nothing where the text has anything else in it, or the number does not fit. `base`: of whole
// numbers, 10 where it is left out.
template <typename Number, typename... Base>
[[nodiscard]] std::optional<Number> number_in_text(std::string_view text, Base... base) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number, base...);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace allocmark

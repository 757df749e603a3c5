#include "base/shell_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace allocmark {
namespace {

constexpr std::string_view kPlain =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+@%";

bool is_control(char letter) {
  const auto byte = static_cast<unsigned char>(letter);
  return byte < 0x20u || byte == 0x7Fu;
}

}  // namespace

std::string shell_word(std::string_view text) {
  // A zsh takes a word that begins with = for a program's path.
  const bool plain = !text.empty() && text.front() != '=' &&
                     text.find_first_not_of(kPlain) == std::string_view::npos;
  if (plain) return std::string(text);
  const bool escaped = std::ranges::any_of(text, is_control);
  std::string word = escaped ? "$'" : "'";
  for (const char letter : text) {
    if (escaped && is_control(letter)) {
      word += fmt::format("\\x{:02x}", static_cast<unsigned char>(letter));
    } else if (escaped && (letter == '\'' || letter == '\\')) {
      word += '\\';
      word += letter;
    } else if (letter == '\'') {
      word += "'\\''";
    } else {
      word += letter;
    }
  }
  return word + "'";
}

}  // namespace allocmark

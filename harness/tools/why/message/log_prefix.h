// What a log puts before each line: times, levels, ranks, hosts, marks of quotes and diffs. A line
// flows in, how much of it is the log's flows out.
#pragma once

#include <cstddef>
#include <string_view>

namespace allocmark::message {

// Of ASCII, whatever the locale.
[[nodiscard]] constexpr bool digit(char c) { return c >= '0' && c <= '9'; }
[[nodiscard]] constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

struct LogPrefix {
  std::size_t size = 0;  // bytes
  // Words of it that say which of several processes wrote the line.
  std::string_view label{};    // "worker-1:", "trainer-0 |"
  std::string_view bracket{};  // "[rank3]:"
};

// What a log put at the head of a line: times, levels, "[rank3]:", "(pid=7)", "#", ">". What may be
// text as well, "+ " or "node7: ", counts where the line before or behind has it too.
[[nodiscard]] LogPrefix log_prefix(std::string_view line, std::string_view before,
                                   std::string_view behind);

// Where the text ends in a line with such a prefix that a log packed as
// {"log":"...","stream":"stderr",...}, or that is one of a box.
[[nodiscard]] std::size_t end_of_text(std::string_view line, std::size_t prefix);

// Past "[31m", which a page leaves of a terminal's colour; 0 where the text does not begin so.
[[nodiscard]] std::size_t colour(std::string_view text);

}  // namespace allocmark::message

// Pasted text made plain, so that one pattern finds a message however it was pasted: lower case,
// without blanks, line ends, quotes, marks of HTML, Markdown and terminals, and without what a log
// puts before each line. Where a blank or line end stands between two digits, a blank stays.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark::message {

struct PlainText {
  std::string text;
  std::vector<std::size_t> line_begins;  // in `text`, one for each line of the source
  std::size_t mark = 0;                  // where in `text` the source's byte `mark_bytes` came

  // 0-based.
  [[nodiscard]] std::size_t line_index(std::size_t at) const;
};

[[nodiscard]] PlainText plain_text(std::string_view source, std::size_t mark_bytes = 0);

}  // namespace allocmark::message

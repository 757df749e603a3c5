// Names from outside - paths, config strings, error texts - made safe for where they are printed.
// Flows in: any bytes; flows out: text that cannot break a table, a terminal, a Markdown page or a
// CSV row.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// Valid UTF-8 on one line: control characters, among them newlines and terminal escapes, become
// \xNN (\n, \r, \t by those names), and characters that turn the direction of text \uNNNN.
[[nodiscard]] std::string printable(std::string_view text);

// As a Markdown code span, in which HTML and Markdown stay text; for text outside tables, and for a
// table's cell, where a pipe must be escaped even in code.
[[nodiscard]] std::string markdown_code(std::string_view text);
[[nodiscard]] std::string markdown_cell_code(std::string_view text);

// As plain Markdown text: every character with a meaning to Markdown or HTML is escaped.
[[nodiscard]] std::string markdown_escape(std::string_view text);

// One CSV field (RFC 4180): quoted where it holds a comma, quote or newline.
[[nodiscard]] std::string csv_field(std::string_view text);

// XML text or attribute: markup escaped, and characters that XML 1.0 cannot have replaced.
[[nodiscard]] std::string xml_text(std::string_view text);

// Columns taken on a terminal, counting one per code point.
[[nodiscard]] std::size_t display_width(std::string_view text);

// Cuts a config string into lines of at most `width` columns: after commas where it can, else after
// a colon or underscore.
[[nodiscard]] std::vector<std::string> wrap_conf(std::string_view conf, std::size_t width);

// Bytes of the text's first word, and of the next where it is the unit of a number: "23.5 GiB),".
[[nodiscard]] std::size_t unbroken_bytes(std::string_view text);

// Fills lines of at most `width` columns with the words of `text`; longer words get a line of their
// own, and a number stays with its unit.
[[nodiscard]] std::string wrap_words(std::string_view text, std::size_t width);

}  // namespace allocmark

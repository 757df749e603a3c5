#include "workloads/import/text_lines.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/number_text.h"

namespace allocmark {
namespace {

constexpr std::size_t kTextLineBytesMax = std::size_t{64} << 10;
// A log becomes events in memory.
constexpr std::uint64_t kLineCountMax = std::uint64_t{1} << 24;

}  // namespace

std::string TextLines::where() const { return fmt::format("{}:{}", path_, number_); }

std::optional<std::string_view> TextLines::next() {
  line_.clear();
  if (++number_ > kLineCountMax) {
    throw UsageError(
        {.what = "the log is too long",
         .where = where(),
         .wanted = fmt::format("at most {} lines", kLineCountMax),
         .got = "more",
         .next = "cut it to the part in question, or record a trace: allocmark capture"});
  }
  while (true) {
    const int byte = bytes_.next();
    if (byte < 0) break;
    if (byte == '\n') {
      if (line_.ends_with('\r')) line_.pop_back();
      return line_;
    }
    line_.push_back(static_cast<char>(byte));
    if (line_.size() > kTextLineBytesMax) {
      throw UsageError({.what = "line too long",
                        .where = where(),
                        .wanted = fmt::format("at most {} bytes", kTextLineBytesMax),
                        .got = "a longer one"});
    }
  }
  if (!bytes_.damage().empty()) {
    throw UsageError({.what = "truncated or damaged file",
                      .where = where(),
                      .wanted = "complete packed data",
                      .got = bytes_.damage(),
                      .next = "copy, pack or record the file again"});
  }
  if (line_.empty()) return std::nullopt;
  return line_;
}

void split_columns(std::string_view line, std::vector<std::string_view>* columns) {
  columns->clear();
  while (true) {
    const std::size_t comma = line.find(',');
    std::string_view column = line.substr(0, comma);
    while (!column.empty() && (column.front() == ' ' || column.front() == '"'))
      column.remove_prefix(1);
    while (!column.empty() && (column.back() == ' ' || column.back() == '"'))
      column.remove_suffix(1);
    columns->push_back(column);
    if (comma == std::string_view::npos) return;
    line.remove_prefix(comma + 1);
  }
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  if (text == "(nil)" || text == "nullptr") return 0;
  const bool is_hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  return is_hexadecimal ? number_in_text<std::uint64_t>(text.substr(2), 16)
                        : number_in_text<std::uint64_t>(text);
}

}  // namespace allocmark

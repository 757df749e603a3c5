// A log written by hand: "+ ADDRESS BYTES" asks, "- ADDRESS" gives back, numbers in decimal.
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include "base/error.h"
#include "workloads/import/recording.h"
#include "workloads/import/text_lines.h"

namespace allocmark {
namespace {

// Takes a number and the space behind it from the front; nothing where there is none.
std::optional<std::uint64_t> take_number(std::string_view* text) {
  std::uint64_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || (stop != end && *stop != ' ')) return std::nullopt;
  text->remove_prefix(static_cast<std::size_t>(stop - text->data()) + (stop != end ? 1 : 0));
  return number;
}

bool add_row(std::string_view row, AddressLog* log) {
  if (!row.starts_with("+ ") && !row.starts_with("- ")) return false;
  const bool asks = row.front() == '+';
  row.remove_prefix(2);
  const std::optional<std::uint64_t> address = take_number(&row);
  if (!address) return false;
  if (!asks) return row.empty() && log->free(*address);
  const std::optional<std::uint64_t> size_bytes = take_number(&row);
  return size_bytes && row.empty() && log->allocate(*address, {.size_bytes = *size_bytes});
}

}  // namespace

Recording open_hand_log(const std::string& path) {
  TextLines lines(path);
  AddressLog log;
  while (const std::optional<std::string_view> line = lines.next()) {
    if (line->empty() || line->starts_with('#') || add_row(*line, &log)) continue;
    throw UsageError({.what = "a row of the log is broken, or of a block that it does not fit",
                      .where = lines.where(),
                      .wanted = "'+ ADDRESS BYTES', or '- ADDRESS' of a block that is live",
                      .got = fmt::format("'{}'", line->substr(0, 80)),
                      .next = "correct the row"});
  }
  Recording recording;
  recording.events = make_log_source(path, std::move(log));
  return recording;
}

}  // namespace allocmark

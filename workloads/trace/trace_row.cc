#include "workloads/trace/trace_row.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstdint>

#include "base/nearest.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {
namespace {

// Texts from a broken file are cut before they go into a message.
std::string shown(std::string_view text) {
  constexpr std::size_t kShownMax = 60;
  std::string result = "'";
  for (const char c : text.substr(0, kShownMax)) {
    result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return result + (text.size() > kShownMax ? "...'" : "'");
}

enum class NumberStatus { Ok, Empty, Negative, Overflow, NotANumber };

NumberStatus parse_number(std::string_view text, std::uint64_t* number) {
  if (text.empty()) return NumberStatus::Empty;
  std::uint64_t value = 0;
  if (text.size() <= 19) {
    // 19 digits always fit in 64 bits.
    for (const char c : text) {
      const unsigned digit = static_cast<unsigned>(c) - '0';
      if (digit > 9) return text[0] == '-' ? NumberStatus::Negative : NumberStatus::NotANumber;
      value = 10 * value + digit;
    }
    *number = value;
    return NumberStatus::Ok;
  }
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text[0] == '-') return NumberStatus::Negative;
  if (stop != end) return NumberStatus::NotANumber;
  if (error == std::errc::result_out_of_range) return NumberStatus::Overflow;
  *number = value;
  return NumberStatus::Ok;
}

ErrorText bad_number(std::string_view column, std::string_view text, NumberStatus status) {
  const std::string name(column);
  switch (status) {
    case NumberStatus::Empty:
      return {.what = name + " is empty", .wanted = "a whole number", .got = "nothing"};
    case NumberStatus::Negative:
      return {.what = name + " is negative", .wanted = "a whole number from 0", .got = shown(text)};
    case NumberStatus::Overflow:
      return {
          .what = name + " overflows 64 bits", .wanted = "at most 2^64 - 1", .got = shown(text)};
    case NumberStatus::NotANumber:
    case NumberStatus::Ok:
      break;
  }
  return {.what = name + " is not a number", .wanted = "decimal digits only", .got = shown(text)};
}

ErrorText wrong_column_count(std::string_view line, std::size_t found_count, int column_count) {
  return {
      .what = static_cast<int>(found_count) < column_count ? "missing columns" : "extra columns",
      .wanted = fmt::format("{} columns ({})", column_count,
                            column_count == 4 ? kTraceColumns : kTraceColumnsTagged),
      .got = fmt::format("{} in {}", found_count, shown(line))};
}

// Which columns an operation uses; the others must be 0, so that shifted columns are noticed.
struct Columns {
  bool id;
  bool size;
  bool stream;
};
constexpr std::array<Columns, kEventKindCount> kColumns = {{
    {true, true, true},     // alloc
    {true, false, false},   // free
    {true, false, true},    // record
    {false, true, true},    // kernel
    {false, false, true},   // busy
    {false, false, false},  // sync
    {true, false, true},    // empty_cache: of a pool; of the process that has the stream
    {false, false, false},  // mark of a step
    {false, true, false},   // host
    {true, false, false},   // pool_create
    {true, true, true},     // pool_begin: 1 for every stream
    {true, false, false},   // pool_end
    {true, false, false},   // pool_release
    {true, true, false},    // pool_on_oom: 1 for on
    {true, false, false},   // pool_no_split
    {true, false, true},    // capture_begin
    {true, false, true},    // capture_end
    {true, false, true},    // graph_replay
    {true, true, false},    // host_alloc
    {true, false, false},   // host_free
    {true, false, true},    // host_record
}};

std::optional<EventKind> kind_of(std::string_view op) {
  // The two operations that make up nearly every trace are told apart without a search.
  if (op == "alloc") return EventKind::Alloc;
  if (op == "free") return EventKind::Free;
  return event_kind_from_name(op);
}

std::optional<ErrorText> check_label(std::string_view label) {
  if (!label.empty() && label.size() <= kTraceLabelLengthMax) return std::nullopt;
  return ErrorText{
      .what = label.empty() ? "mark without a label" : "label too long",
      .wanted = fmt::format("mark,LABEL,0,0 with 1 to {} characters", kTraceLabelLengthMax),
      .got = shown(label)};
}

struct Numbers {
  std::uint64_t id = 0;
  std::uint64_t size = 0;
  std::uint64_t stream = 0;
};

std::optional<ErrorText> check_columns(EventKind kind, const Numbers& numbers,
                                       std::string_view label) {
  Columns used = kColumns[static_cast<std::size_t>(kind)];
  // Marks of requests have their time there, of managed memory their bytes, meetings their bytes
  // and their stream.
  if (kind == EventKind::Mark) {
    const MarkClass mark_class = mark_class_of(label);
    used.size = mark_class != MarkClass::Step;
    used.stream = is_meeting(mark_class);
  }
  const auto unused = [&](bool is_used, std::string_view column,
                          std::uint64_t value) -> std::optional<ErrorText> {
    if (is_used || value == 0) return std::nullopt;
    return ErrorText{
        .what = fmt::format("{} does not use column {}", event_kind_name(kind), column),
        .wanted = "0 there",
        .got = std::to_string(value),
        .next = "Are the columns in the order op,id,size,stream?"};
  };
  if (auto broken = unused(used.id, "id", numbers.id)) return broken;
  if (auto broken = unused(used.size, "size", numbers.size)) return broken;
  if (auto broken = unused(used.stream, "stream", numbers.stream)) return broken;
  if (numbers.stream >= kTraceStreamCountMax) {
    return stream_too_large(numbers.stream);
  }
  return std::nullopt;
}

std::optional<ErrorText> parse_tensor(std::string_view text, Event* event) {
  if (text.empty()) return std::nullopt;
  const std::optional<TensorKind> tensor = tensor_kind_from_name(text);
  if (!tensor) {
    return ErrorText{.what = "unknown tensor kind " + shown(text),
                     .wanted = "a known kind or nothing",
                     .next = suggest(text, tensor_kind_names())};
  }
  if (event->kind != EventKind::Alloc && event->kind != EventKind::HostAlloc) {
    return ErrorText{
        .what = fmt::format("{} does not use column tensor", event_kind_name(event->kind)),
        .wanted = "nothing there",
        .got = shown(text)};
  }
  event->tensor = *tensor;
  return std::nullopt;
}

// Splits at commas; returns the number of fields found, even where that is more than `fields`
// holds.
std::size_t split(std::string_view line, std::array<std::string_view, 5>* fields) {
  std::size_t count = 0;
  const char* begin = line.data();
  const char* end = line.data() + line.size();
  for (const char* at = begin;; ++at) {
    if (at != end && *at != ',') continue;
    if (count < fields->size()) (*fields)[count] = {begin, static_cast<std::size_t>(at - begin)};
    ++count;
    if (at == end) return count;
    begin = at + 1;
  }
}

}  // namespace

ErrorText stream_too_large(std::uint64_t stream) {
  return {.what = "stream index too large",
          .wanted = fmt::format("0 to {}", kTraceStreamCountMax - 1),
          .got = std::to_string(stream),
          .next = "Streams are small dense indexes, not handles: number them 0, 1, 2"};
}

std::optional<ErrorText> parse_trace_row(std::string_view line, int column_count, Event* event,
                                         std::string_view* label) {
  std::array<std::string_view, 5> fields;
  const std::size_t found_count = split(line, &fields);
  if (found_count != static_cast<std::size_t>(column_count)) {
    return wrong_column_count(line, found_count, column_count);
  }
  const std::optional<EventKind> kind = kind_of(fields[0]);
  if (!kind) {
    return ErrorText{.what = "unknown operation " + shown(fields[0]),
                     .wanted = "a known operation",
                     .next = suggest(fields[0].substr(0, 60), event_kind_names())};
  }
  Numbers numbers;
  if (*kind == EventKind::Mark) {
    if (auto broken = check_label(fields[1])) return broken;
    *label = fields[1];
  } else if (const auto status = parse_number(fields[1], &numbers.id); status != NumberStatus::Ok) {
    return bad_number("id", fields[1], status);
  }
  if (const auto status = parse_number(fields[2], &numbers.size); status != NumberStatus::Ok) {
    return bad_number("size", fields[2], status);
  }
  if (const auto status = parse_number(fields[3], &numbers.stream); status != NumberStatus::Ok) {
    return bad_number("stream", fields[3], status);
  }
  if (auto broken = check_columns(*kind, numbers, *label)) return broken;
  *event = Event{.id = numbers.id,
                 .size_bytes = numbers.size,
                 .stream = static_cast<std::uint32_t>(numbers.stream),
                 .kind = *kind};
  if (column_count == 5) return parse_tensor(fields[4], event);
  return std::nullopt;
}

void append_trace_row(const Event& event, std::string_view label, bool tagged, std::string* text) {
  const auto append_number = [text](std::uint64_t number) {
    std::array<char, 20> digits;
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    text->push_back(',');
    text->append(digits.data(), end);
  };
  text->append(event_kind_name(event.kind));
  if (event.kind == EventKind::Mark) {
    text->push_back(',');
    text->append(label);
  } else {
    append_number(event.id);
  }
  append_number(event.size_bytes);
  append_number(event.stream);
  if (tagged) {
    text->push_back(',');
    if (event.tensor != TensorKind::Unknown) text->append(tensor_kind_name(event.tensor));
  }
  text->push_back('\n');
}

}  // namespace allocmark

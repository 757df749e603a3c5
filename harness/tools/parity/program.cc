// Writes and reads programs; see program.h.
#include "harness/tools/parity/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "workloads/trace/event_names.h"
#include "workloads/trace/trace_row.h"

namespace allocmark::caching {
namespace {

std::string with(std::string_view text, char from, char to) {
  std::string changed(text);
  std::ranges::replace(changed, from, to);
  return changed;
}

[[noreturn]] void throw_bad_row(std::uint64_t line, ErrorText broken) {
  broken.where = fmt::format("line {}", line);
  if (broken.next.empty()) broken.next = "see workloads/TRACES.md for the trace format";
  throw UsageError(std::move(broken));
}

std::uint64_t bytes_of(std::string_view text, std::uint64_t line) {
  if (const auto value = number_in_text<std::uint64_t>(text)) return *value;
  throw_bad_row(line, {.what = "a number cannot be read",
                       .wanted = "bytes, as decimal digits",
                       .got = std::string(text)});
}

// What a mark asks for: a program's release, configuration, capacity or limit, else nothing.
void read_mark(std::string_view text, std::uint64_t line, Program& program, bool& configured) {
  const std::size_t blank = text.find(' ');
  const std::string_view label = text.substr(0, blank);
  const std::string_view value = blank == std::string_view::npos ? "" : text.substr(blank + 1);
  if (label == "capacity") {
    program.capacity_bytes = bytes_of(value, line);
  } else if (label == "pytorch") {
    program.rules = &require_rules(value, fmt::format("line {}", line));
  } else if (label == "limit") {
    program.change({.conf = {}, .limit_bytes = bytes_of(value, line)});
  } else if (label == "conf" && configured) {
    program.change({.conf = with(value, ' ', ','), .limit_bytes = {}});
  } else if (label == "conf") {
    program.conf = with(value, ' ', ',');
    configured = true;
  }
}

}  // namespace

void Program::change(Change change) {
  events.push_back({.id = changes.size(), .kind = EventKind::Mark});
  changes.push_back(std::move(change));
}

bool is_of_program(EventKind kind) {
  return kind != EventKind::Kernel && kind != EventKind::Host && kind != EventKind::GraphReplay &&
         !is_of_host(kind);
}

std::string to_row(const Program& program, const allocmark::Event& event) {
  std::string label;
  if (event.kind == EventKind::Mark) {
    const Change& change = program.changes[event.id];
    label = change.conf ? "conf " + with(*change.conf, ',', ' ')
                        : fmt::format("limit {}", change.limit_bytes.value_or(0));
  }
  std::string row;
  append_trace_row(event, label, /*tagged=*/false, &row);
  return row;
}

std::string to_trace(const Program& program) {
  std::string text = fmt::format("{}\n", kTraceColumns);
  if (program.rules->minor != kNewestMinor)
    text += fmt::format("mark,pytorch {},0,0\n", program.rules->name());
  text += fmt::format("mark,capacity {},0,0\nmark,conf {},0,0\n", program.capacity_bytes,
                      with(program.conf, ',', ' '));
  for (const allocmark::Event& event : program.events) text += to_row(program, event);
  return text;
}

Program program_from_trace(std::string_view text) {
  Program program;
  bool configured = false;
  std::uint64_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line;
    if (line == 1 || content.empty() || content.front() == '#') continue;  // line 1: the header
    allocmark::Event event;
    std::string_view label;
    if (std::optional<ErrorText> broken = parse_trace_row(content, 4, &event, &label))
      throw_bad_row(line, std::move(*broken));
    if (event.kind == EventKind::Mark) {
      read_mark(label, line, program, configured);
    } else if (!is_of_program(event.kind)) {
      throw_bad_row(line, {.what = "no program has this operation",
                           .wanted = "requests, frees, uses, busy streams, private pools",
                           .got = std::string(event_kind_name(event.kind))});
    } else {
      program.events.push_back(event);
    }
  }
  return program;
}

}  // namespace allocmark::caching

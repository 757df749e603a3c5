// One line of a trace file: text in, event out, or the rule that the text breaks. Written by hand
// because a trace has up to 100 million lines: no locale, no streams, no copies.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "workloads/trace/event.h"

namespace allocmark {

inline constexpr std::string_view kTraceColumns = "op,id,size,stream";
inline constexpr std::string_view kTraceColumnsTagged = "op,id,size,stream,tensor";

// Parses `line` (no newline) with 4 or 5 columns. For a Mark `label` is set and the event's id left
// 0. Returns the broken rule with an empty `where`, or nothing.
[[nodiscard]] std::optional<ErrorText> parse_trace_row(std::string_view line, int column_count,
                                                       Event* event, std::string_view* label);

[[nodiscard]] ErrorText stream_too_large(std::uint64_t stream);

// Appends the line of `event` with its newline. `label` is used for a Mark only.
void append_trace_row(const Event& event, std::string_view label, bool tagged, std::string* text);

}  // namespace allocmark

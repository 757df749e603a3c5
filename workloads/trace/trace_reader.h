// Recorded traces: a text file (workloads/TRACES.md) in, checked events out, in constant
// memory. Every row is checked against the rules of the format; the first broken one throws
// UsageError with file, line and rule.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "workloads/trace/source.h"

namespace allocmark {

// Opens the file and reads its head; the rows are read by next().
[[nodiscard]] std::unique_ptr<EventSource> open_trace_file(const std::string& path);

// The file's name without those of the endings that it has, the first of them last.
[[nodiscard]] std::string name_without(const std::string& path,
                                       std::initializer_list<std::string_view> endings);

}  // namespace allocmark

// Recorded traces: a text file (workloads/TRACES.md) in, checked events out, in constant
// memory. Every row is checked against the rules of the format; the first broken one throws
// UsageError with file, line and rule.
#pragma once

#include <memory>
#include <string>

#include "workloads/trace/source.h"

namespace allocmark {

// Opens the file and reads its head; the rows are read by next().
[[nodiscard]] std::unique_ptr<EventSource> open_trace_file(const std::string& path);

}  // namespace allocmark

// A qualification as JSON, both ways: qualify.json and the lines of tests.jsonl. What it holds
// stands in report_fields.h. Flows in: a report, or a file's text; flows out: the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/tools/qualify/result.h"

namespace allocmark::qualify {

// Everything; ends with a newline.
[[nodiscard]] std::string render_json(const Report& report);
// One line of JSON, for a log that grows while the tests run.
[[nodiscard]] std::string render_json_line(const TestResult& result);

// Throws UsageError that names `where` and the key where the text is no qualification, is cut
// short, or is of another MAJOR version. Keys that a newer MINOR added are ignored.
[[nodiscard]] Report report_from_json(std::string_view text, const std::string& where);

// Seconds since 1970 of a report's time, "2026-11-22T10:11:12Z"; nothing for another text.
[[nodiscard]] std::optional<std::int64_t> utc_seconds(const std::string& text);

}  // namespace allocmark::qualify

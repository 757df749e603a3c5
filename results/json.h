// Results as JSON text and back: one line per environment, cell or cell key, without the newline.
// Flows in: the structs of schema.h, or a line of a results file; flows out: the other one.
// results/schema.json is the published schema, results/DEFINITIONS.md defines every field. This
// file neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "results/schema.h"
#include "results/utf8.h"

namespace allocmark {

// "ok", "oom_stopped", "skipped", "failed", "crashed", "timed_out", "interrupted".
[[nodiscard]] std::string_view to_string(CellStatus status);
[[nodiscard]] std::optional<CellStatus> parse_cell_status(std::string_view text);

// Every known key is written; what is not known or not defined is null, never 0 and never NaN or
// Infinity.
[[nodiscard]] std::string to_json_line(const Environment& environment);
[[nodiscard]] std::string to_json_line(const CellResult& cell);
[[nodiscard]] std::string to_json_line(const CellKey& key);

// `where` is the line's place ("out/results.jsonl:12") for messages. Throws UsageError where
// the line is cut short, corrupt, of another kind or of another MAJOR version. Keys that are not
// known are an error, unless the line comes from a newer MINOR version; nullable keys may be
// missing, as in a line of an older MINOR version.
[[nodiscard]] Environment environment_from_json(std::string_view line, const std::string& where);
// `schema_minor`, where it is asked for, is the line's.
[[nodiscard]] CellResult cell_result_from_json(std::string_view line, const std::string& where,
                                               std::uint32_t* schema_minor = nullptr);
[[nodiscard]] CellKey cell_key_from_json(std::string_view line, const std::string& where);

// "environment", "cell" or "cell_key" (the key "kind"); nothing where the line is no whole JSON
// object or has no kind.
[[nodiscard]] std::optional<std::string> json_line_kind(std::string_view line);

}  // namespace allocmark

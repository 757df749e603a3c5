// A soak's lines: what it is, then one for each window and one for the end of each process. Flows
// in and out: soak/CELL_ID.jsonl in the folder of the run, and the pipe between the two processes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/core/cell/soak.h"

namespace allocmark {

[[nodiscard]] std::string to_json_line(const SoakSpec& spec);
[[nodiscard]] std::string to_json_line(const SoakWindow& window);
[[nodiscard]] std::string to_json_line(const SoakEnd& end);

// What soaked so far. The process may have been ended and begun again.
struct SoakRecord {
  SoakSpec spec;
  std::vector<SoakWindow> windows;
  std::vector<std::size_t> begins;  // of each process, as an index into windows
  SoakEnd end;                      // of the last process that said one
  bool ended = false;               // the last process did

  [[nodiscard]] double done_s() const { return windows.empty() ? 0 : windows.back().end_s; }
  [[nodiscard]] bool is_whole() const { return ended && done_s() >= spec.seconds; }
};

// Adds a line of the pipe or of the file. Throws UsageError that names `where`.
void add_line(std::string_view line, const std::string& where, SoakRecord& record);

// The file's record, and how many of its bytes are whole lines: the last may be cut short.
struct SoakFile {
  SoakRecord record;
  std::uint64_t size_bytes = 0;
};
[[nodiscard]] SoakFile read_soak_file(const std::string& path);

}  // namespace allocmark

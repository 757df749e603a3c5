// The files that a run depends on, and what was in them: the program, plugins that config strings
// name, and the trace files of its workloads. Cells flow in; paths with hashes flow out, so that a
// file that somebody changes is found.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "results/schema.h"

namespace allocmark {

struct FileMark {
  std::string path;  // absolute
  std::string hash;  // 16 hex digits; empty where the file could not be read
  friend bool operator==(const FileMark&, const FileMark&) = default;
};
[[nodiscard]] FileMark mark_file(const std::string& path);

// Every existing file that a config string of these cells names.
[[nodiscard]] std::vector<FileMark> mark_conf_files(const std::vector<CellKey>& cells);
// The trace files of these cells as they were when the cells were planned: none is read again.
[[nodiscard]] std::vector<FileMark> mark_trace_files(const std::vector<CellKey>& cells);
// Both.
[[nodiscard]] std::vector<FileMark> mark_files(const std::vector<CellKey>& cells);

// Paths of the files that are others now than when they were marked.
[[nodiscard]] std::vector<std::string> changed_since(const std::vector<FileMark>& marks);

// Throws UsageError where a workload names a pipe: it can be read once, and cells read it again.
void refuse_pipes(std::string_view workload);

// What CellKey::workload_files holds: the hashes of the trace files that a workload names, with
// commas between. Empty where it names none. Reads each file to its end; throws FileError where it
// cannot.
[[nodiscard]] std::string hash_trace_files(std::string_view workload);

}  // namespace allocmark

// The traces of a capture's folder. In: a folder that processes wrote to, some of them ended by a
// signal. Out: every trace cut to its whole rows, and what it holds.
#pragma once

#include <string>
#include <vector>

#include "workloads/trace/summary.h"

namespace allocmark {

struct CapturedFile {
  std::string path;
  bool in_use = false;   // a process still writes it; it was left as it is
  bool was_cut = false;  // its writer ended without closing it
  TraceSummary summary;  // of whole files that are not in use
};

// By name. Throws FileError where the folder cannot be read, and UsageError where a file in it was
// changed by somebody else.
[[nodiscard]] std::vector<CapturedFile> finish_captured_files(const std::string& folder);

}  // namespace allocmark

// A run that somebody published, as it is to be run again: a bundle, a run's folder or a results
// file flows in; its cells, its plan and what to know of it flow out. Neither times nor checks
// allocators.
#pragma once

#include <string>
#include <vector>

#include "harness/core/run/run_folder.h"
#include "results/cell_source.h"
#include "results/schema.h"

namespace allocmark {

struct PublishedRun {
  Environment environment = {};
  std::vector<CellResult> cells = {};  // as summaries, in the order of the file
  CellSource whole = {};               // the same cells
  RunManifest plan = {};               // of a results file alone: as its cells tell
  std::vector<std::string> notes = {};
  bool complete = true;  // false: cells are missing that were planned, or the file was cut short
};

// Throws FileError where there is no such path. Throws UsageError where it is neither of the three,
// or damaged, or of another MAJOR version of the schema, or without cells.
[[nodiscard]] PublishedRun read_published(const std::string& path);

}  // namespace allocmark

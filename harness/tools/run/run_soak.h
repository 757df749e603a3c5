// 'run --for': each cell on one instance of its allocator for hours, instead of a few passes.
#pragma once

#include <string>

#include "base/error.h"
#include "harness/core/run/run_folder.h"
#include "harness/tools/run/run_options.h"

namespace allocmark {

// Throws UsageError where the command's other options do not go together with --for.
void check_soak_usage(const RunCommand& command);

// Soaks the cells one after the other; each gets its share of the time.
[[nodiscard]] ExitCode soak_cells(const RunCommand& command, const RunManifest& manifest,
                                  const std::vector<CellKey>& cells, const std::string& folder,
                                  const Environment& environment);

}  // namespace allocmark

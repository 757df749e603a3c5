// 'run --for': each cell on one instance of its allocator for hours, instead of a few passes.
#pragma once

#include <array>
#include <string>
#include <vector>

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

// Soaks both sides of each cell, one after the other, and compares what grows. Each cell gets its
// share of the time, on either side. Files go to folder/A and folder/B.
struct SoakedSides {
  std::array<std::string, 2> program_paths;
  std::vector<std::array<CellKey, 2>> cells;
  VerifyLevel verify = VerifyLevel::Edges;
};
[[nodiscard]] ExitCode soak_sides(const RunCommand& command, const SoakedSides& sides,
                                  const std::string& folder);

}  // namespace allocmark

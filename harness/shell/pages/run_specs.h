// The cells of a run as specifications, and running them with their results in the run's folder.
// Cells and what was kept of an earlier run flow in; lines of the folder flow out. Times nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/cell/cell.h"
#include "harness/core/measure/host_scale.h"
#include "harness/core/run/progress.h"
#include "harness/core/run/run.h"
#include "harness/core/run/run_folder.h"
#include "results/compare/repeat.h"
#include "results/schema.h"

namespace allocmark {

// What holds for every cell of this run and is not in the manifest.
struct SpecSettings {
  std::uint32_t job_count = 1;
  std::uint32_t gpu_count = 0;  // that the cells are dealt out to; 0: all use their device
  HostTarget host_target = {};
};

// What is left to do, as specifications.
[[nodiscard]] std::vector<CellSpec> remaining_specs(const std::vector<CellKey>& cells,
                                                    const std::vector<CellResult>& kept,
                                                    const RunManifest& manifest,
                                                    const std::string& placements_folder,
                                                    const SpecSettings& settings);

// DIR/timelines/CELL_ID.json, absolute.
[[nodiscard]] std::string timeline_path(const std::string& folder, const CellKey& key);

// Every cell writes DIR/timelines/CELL_ID.json.
void add_timelines(const std::string& folder, std::vector<CellSpec>* specs);

// Where cells' results go.
struct RunSinks {
  RunFolder& results;
  const RepeatBasis& basis;
  Progress& progress;
  std::vector<double>& host_references_ns;  // of the cells that have one
};

// Runs them, with their passes spread over the run where `spread` says so (rounds.h). Every result,
// and every result so far, is in the folder when this goes on. False where an interrupt ended it.
[[nodiscard]] bool run_specs(const std::vector<CellSpec>& specs, bool spread,
                             const RunCellsOptions& options, const RunSinks& sinks);

}  // namespace allocmark

// What 'run' was asked for, joined with its suite and scenario, before it becomes a plan; shared
// with A/B runs, which make two plans of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/plan.h"
#include "harness/core/run/run.h"
#include "harness/core/run/run_folder.h"
#include "harness/job/interrupt.h"
#include "harness/tools/run/run_options.h"
#include "results/schema.h"

namespace allocmark {

struct RunRequest {
  PlanRequest plan;
  std::string title;  // "default", "run"
  std::uint32_t pass_count = 3;
  std::vector<std::string> notes = {};  // which release `caching` stands for
  // Of files whose content is refused, while others can run: what is wrong with each.
  std::vector<ErrorText> left_out = {};
};

// The device stays empty. Throws UsageError on unknown suites, scenarios and workloads, and where
// no workload is left.
[[nodiscard]] RunRequest join_with_preset(const RunCommand& command,
                                          const std::vector<PlanAllocator>& known);

// Throws UsageError or EnvironmentError where nothing can be run like this, whatever the cells are.
void check_usage(const RunCommand& command);

// Throws UsageError where a cell's capacity is more than the device has in all, or its allocator
// cannot run there.
void check_fits_device(const std::vector<CellKey>& cells, const Environment& facts,
                       const std::vector<PlanAllocator>& known);

// Throws UsageError where there are more cells than a report can be made of.
void check_reportable(const std::vector<CellKey>& cells, const RunManifest& manifest);

// A new folder's name under allocmark-results.
[[nodiscard]] std::string default_folder(const std::string& title);

// Cells that are dealt out to several GPUs (--gpus): which GPUs can take them, and how many cells
// run at a time.

// Throws UsageError where the machine's first `gpu_count` GPUs are not of one model or not there,
// and where another option contradicts. Their results count as those of one device.
void require_gpus(const RunCommand& command, const DeviceChoice& device,
                  const std::string& program_path);

// How cells run: one at a time on each GPU, or as many as --jobs says.
[[nodiscard]] RunCellsOptions cells_options(const RunCommand& command, const std::string& device,
                                            const std::string& program_path,
                                            const InterruptGuard* interrupt);

}  // namespace allocmark

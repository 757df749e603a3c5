// Cells that are dealt out to several GPUs (--gpus): which GPUs can take them, and how many cells
// run at a time.
#pragma once

#include <string>

#include "harness/core/run/environment.h"
#include "harness/core/run/run.h"
#include "harness/job/interrupt.h"
#include "harness/tools/run/run_options.h"

namespace allocmark {

// Throws UsageError where the machine's first `gpu_count` GPUs are not of one model or not there,
// and where another option contradicts. Their results count as those of one device.
void require_gpus(const RunCommand& command, const DeviceChoice& device,
                  const std::string& program_path);

// How cells run: one at a time on each GPU, or as many as --jobs says.
[[nodiscard]] RunCellsOptions cells_options(const RunCommand& command, const std::string& device,
                                            const std::string& program_path,
                                            const InterruptGuard* interrupt);

}  // namespace allocmark

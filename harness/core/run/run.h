// Runs cells, each in a process of its own, several at a time. Specifications flow in; results flow
// out through a callback in the order in which cells end. Times nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/cell/cell.h"
#include "harness/core/run/known_packings.h"
#include "harness/core/run/run_group.h"
#include "harness/job/interrupt.h"
#include "results/schema.h"

namespace allocmark {

struct RunCellsOptions {
  std::string program_path;     // what is started with "cell"
  std::uint32_t job_count = 1;  // cells at a time
  std::uint32_t gpu_count = 0;  // that they are dealt out to; 0: to the device of each
  const InterruptGuard* interrupt = nullptr;  // may be null
};

// Runs the groups, in their order and several at a time. `on_result` gets a group's index and what
// one of its processes gave. What holds for run_cells holds here. With `gpu_count` above 0 the
// processes of a group see one of so many GPUs (visible_gpu()), the one that fewest groups use.
// `packings` is read and added to.
[[nodiscard]] bool run_groups(
    const std::vector<RunGroupSpec>& groups, std::uint32_t job_count, std::uint32_t gpu_count,
    const InterruptGuard* interrupt, KnownPackings& packings,
    const std::function<void(std::size_t, const GroupResult&)>& on_result);

// Returns true where all cells were run, false where an interrupt ended it: running cells are then
// ended and give no result. An exception of on_result ends the running cells and goes on to the
// caller.
[[nodiscard]] bool run_cells(const std::vector<CellSpec>& specs, const RunCellsOptions& options,
                             const std::function<void(const CellResult&)>& on_result);

// What CUDA_VISIBLE_DEVICES must be for a process to see this GPU alone: the entry at that place of
// `visible`, this process's own value of the variable, or the number itself where that is null.
[[nodiscard]] std::string visible_gpu(const char* visible, std::uint32_t index);

// Jobs where the command line does not say: all cores for a simulated device, 1 for a GPU (cells on
// one GPU would measure each other).
[[nodiscard]] std::uint32_t default_job_count(const std::string& device);

}  // namespace allocmark

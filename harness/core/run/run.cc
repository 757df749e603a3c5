// See run.h.
#include "harness/core/run/run.h"

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "harness/core/device/runtime_select.h"
#include "harness/core/run/open_driver.h"
#include "harness/job/child_process.h"

namespace allocmark {
namespace {

struct RunningGroup {
  std::size_t index = 0;
  std::uint32_t gpu = 0;
  std::unique_ptr<RunGroup> group;
};

// The GPU that fewest groups use, the first of them.
std::uint32_t freest_gpu(const std::vector<RunningGroup>& running, std::uint32_t gpu_count) {
  const auto uses = [&](std::uint32_t gpu) {
    return std::ranges::count(running, gpu, &RunningGroup::gpu);
  };
  std::uint32_t freest = 0;
  for (std::uint32_t gpu = 1; gpu < gpu_count; ++gpu) {
    if (uses(gpu) < uses(freest)) freest = gpu;
  }
  return freest;
}

}  // namespace

std::string visible_gpu(const char* visible, std::uint32_t index) {
  if (visible == nullptr) return std::to_string(index);
  std::istringstream entries(visible);
  std::string entry;
  for (std::uint32_t i = 0; std::getline(entries, entry, ','); ++i) {
    if (i == index) return entry;
  }
  return "";
}

bool run_groups(const std::vector<RunGroupSpec>& groups, std::uint32_t job_count,
                std::uint32_t gpu_count, const InterruptGuard* interrupt, KnownPackings& packings,
                const std::function<void(std::size_t, const GroupResult&)>& on_result) {
  std::vector<RunningGroup> running;
  std::size_t next_index = 0;
  while (next_index < groups.size() || !running.empty()) {
    if (interrupt != nullptr && interrupt->requested()) return false;
    while (next_index < groups.size() && running.size() < job_count) {
      const std::uint32_t gpu = freest_gpu(running, gpu_count);
      RunGroupSpec group = groups[next_index];
      for (CellStep& step : group.steps) packings.tell(step.program_path, step.spec);
      if (gpu_count > 0) group.visible_gpu = visible_gpu(std::getenv("CUDA_VISIBLE_DEVICES"), gpu);
      running.push_back(
          {.index = next_index, .gpu = gpu, .group = std::make_unique<RunGroup>(std::move(group))});
      ++next_index;
    }
    bool moved = false;
    for (std::size_t i = 0; i < running.size();) {
      running[i].group->advance();
      const std::vector<GroupResult> results = running[i].group->take_results();
      const std::size_t index = running[i].index;
      moved = moved || !results.empty();
      if (running[i].group->ended()) {
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
      for (const GroupResult& result : results) {
        packings.note(groups[index].steps[result.step_index].program_path, result.cell);
        on_result(index, result);
      }
    }
    if (moved) continue;
    std::vector<const ChildProcess*> children;
    for (const RunningGroup& one : running) one.group->add_children(children);
    wait_for_news(children, interrupt);
  }
  return true;
}

bool run_cells(const std::vector<CellSpec>& specs, const RunCellsOptions& options,
               const std::function<void(const CellResult&)>& on_result) {
  std::vector<RunGroupSpec> groups;
  std::vector<std::string> devices;
  for (const CellSpec& spec : specs) {
    devices.push_back(spec.key.device);
    groups.push_back({.steps = {{.spec = spec, .program_path = options.program_path}}});
  }
  for (std::uint32_t i = 1; i < options.gpu_count; ++i) {
    devices.push_back("cuda:" + std::to_string(i));
  }
  const OpenDriver driver(devices, options.program_path);
  KnownPackings packings;
  return run_groups(
      groups, options.job_count, options.gpu_count, options.interrupt, packings,
      [&](std::size_t /*group*/, const GroupResult& result) { on_result(result.cell); });
}

std::uint32_t default_job_count(const std::string& device) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (!is_simulated(device) || sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&cpus)));
}

}  // namespace allocmark

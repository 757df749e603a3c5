// See run.h.
#include "harness/core/run/run.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "harness/core/device/runtime_select.h"
#include "harness/core/run/open_driver.h"
#include "harness/job/child_process.h"

namespace allocmark {
namespace {

struct RunningGroup {
  std::size_t index = 0;
  std::unique_ptr<RunGroup> group;
};

// Returns when a child or an interrupt has something to say, or when the next deadline is due.
void wait_for_news(const std::vector<RunningGroup>& running, const InterruptGuard* interrupt) {
  std::vector<pollfd> fds;
  int timeout_ms = kPollMsMax;
  for (const RunningGroup& one : running) one.group->watch(fds, timeout_ms);
  if (interrupt != nullptr) {
    fds.push_back({.fd = interrupt->wake_fd(), .events = POLLIN, .revents = 0});
  }
  poll(fds.data(), fds.size(), timeout_ms);
}

}  // namespace

bool run_groups(const std::vector<RunGroupSpec>& groups, std::uint32_t job_count,
                const InterruptGuard* interrupt,
                const std::function<void(std::size_t, const GroupResult&)>& on_result) {
  std::vector<RunningGroup> running;
  std::size_t next_index = 0;
  while (next_index < groups.size() || !running.empty()) {
    if (interrupt != nullptr && interrupt->requested()) return false;
    while (next_index < groups.size() && running.size() < job_count) {
      running.push_back(
          {.index = next_index, .group = std::make_unique<RunGroup>(groups[next_index])});
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
      for (const GroupResult& result : results) on_result(index, result);
    }
    if (!moved) wait_for_news(running, interrupt);
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
  const OpenDriver driver(devices, options.program_path);
  return run_groups(
      groups, options.job_count, options.interrupt,
      [&](std::size_t /*group*/, const GroupResult& result) { on_result(result.cell); });
}

std::uint32_t default_job_count(const std::string& device) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (!is_simulated(device) || sched_getaffinity(0, sizeof(cpus), &cpus) != 0) {
    return 1;
  }
  return static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&cpus)));
}

}  // namespace allocmark

// See run.h.
#include "harness/run.h"

#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>

#include "base/error.h"
#include "harness/cell_process.h"
#include "harness/child_process.h"
#include "harness/runtime_select.h"

namespace allocmark {
namespace {

using Clock = std::chrono::steady_clock;

// A child whose pipes are held open by a process it left behind is found at the latest after this
// time.
constexpr int kPollMsMax = 50;
// A child whose pipes are at their end exits within microseconds.
constexpr int kPollMsClosing = 1;

struct RunningCell {
  std::size_t step_index = 0;
  std::unique_ptr<ChildProcess> child;
};

// Returns when a child or an interrupt has something to say, or when the next deadline is due.
void wait_for_news(const std::vector<RunningCell>& running, const InterruptGuard* interrupt) {
  std::vector<pollfd> fds;
  int timeout_ms = kPollMsMax;
  for (const RunningCell& cell : running) {
    const auto [result_fd, stderr_fd] = cell.child->poll_fds();
    fds.push_back({.fd = result_fd, .events = POLLIN, .revents = 0});
    fds.push_back({.fd = stderr_fd, .events = POLLIN, .revents = 0});
    if (cell.child->closing()) {
      timeout_ms = kPollMsClosing;
    }
  }
  if (interrupt != nullptr) {
    fds.push_back({.fd = interrupt->wake_fd(), .events = POLLIN, .revents = 0});
  }
  poll(fds.data(), fds.size(), timeout_ms);
}

// Starts the cell, or says as its result why it could not be started.
std::optional<CellResult> start_cell(const CellSpec& spec, const std::string& program_path,
                                     std::unique_ptr<ChildProcess>* child) {
  try {
    *child = std::make_unique<ChildProcess>(cell_command(spec, program_path));
    return std::nullopt;
  } catch (const EnvironmentError& error) {
    CellResult result;
    result.key = spec.key;
    result.status = CellStatus::Failed;
    result.reason = error.what();
    return result;
  }
}

}  // namespace

bool run_steps(const std::vector<CellStep>& steps, std::uint32_t job_count,
               const InterruptGuard* interrupt,
               const std::function<void(std::size_t, const CellResult&)>& on_result) {
  std::vector<RunningCell> running;
  std::size_t next_index = 0;
  while (next_index < steps.size() || !running.empty()) {
    if (interrupt != nullptr && interrupt->requested()) {
      return false;
    }
    while (next_index < steps.size() && running.size() < job_count) {
      RunningCell cell{.step_index = next_index, .child = nullptr};
      const std::optional<CellResult> failure =
          start_cell(steps[next_index].spec, steps[next_index].program_path, &cell.child);
      ++next_index;
      if (failure.has_value()) {
        on_result(cell.step_index, *failure);
      } else {
        running.push_back(std::move(cell));
      }
    }
    if (running.empty()) {
      continue;
    }
    wait_for_news(running, interrupt);
    for (std::size_t i = 0; i < running.size();) {
      const std::optional<ChildOutcome> outcome = running[i].child->advance();
      if (!outcome.has_value()) {
        ++i;
        continue;
      }
      const std::size_t step_index = running[i].step_index;
      const CellResult result = cell_result(steps[step_index].spec, *outcome);
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(i));
      on_result(step_index, result);
    }
  }
  return true;
}

bool run_cells(const std::vector<CellSpec>& specs, const RunCellsOptions& options,
               const std::function<void(const CellResult&)>& on_result) {
  std::vector<CellStep> steps;
  for (const CellSpec& spec : specs) {
    steps.push_back({.spec = spec, .program_path = options.program_path});
  }
  return run_steps(steps, options.job_count, options.interrupt,
                   [&](std::size_t /*step*/, const CellResult& result) { on_result(result); });
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

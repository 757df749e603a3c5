// See monitor_process.h.
#include "harness/tools/qualify/monitor_process.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.h"

namespace allocmark::qualify {
namespace {

constexpr std::chrono::seconds kMonitorPatience{10};

constexpr Job<TestSpec, GpuReadings> kMonitor{
    .name = "monitor", .what = "the monitor", .run = run_monitor, .opens_device = false};

}  // namespace

MonitorProcess::MonitorProcess(const TestSpec& spec, const ChildPlan& plan)
    : gpu_count_(spec.gpus.size()) {
  try {
    child_ = std::make_unique<ChildProcess>(command_of(kMonitor, spec, place_of(spec, plan)));
  } catch (const Error&) {
    // Said in the header.
  }
}

void MonitorProcess::advance() {
  if (child_ == nullptr || outcome_) return;
  outcome_ = child_->advance();
}

std::map<int, std::map<std::string, double>> MonitorProcess::end() {
  std::map<int, std::map<std::string, double>> seen;
  if (child_ == nullptr) return seen;
  // It tells of every GPU as soon as it has started, which may take longer than short tests.
  const auto patience = std::chrono::steady_clock::now() + kMonitorPatience;
  const auto has_all = [&] {
    const std::string& text = child_->result_so_far();
    return static_cast<std::size_t>(std::ranges::count(text, '\n')) >= gpu_count_;
  };
  while (!outcome_ && !has_all() && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    advance();
  }
  child_->end();
  while (!outcome_) advance();
  // A last line that is cut short is left.
  std::string_view text = outcome_->result;
  for (GpuReadings& one : take_answers(kMonitor, text)) seen[one.gpu] = std::move(one.values);
  return seen;
}

}  // namespace allocmark::qualify

namespace allocmark {

extern const JobEntry kMonitorJob;
constinit const JobEntry kMonitorJob = job_entry<qualify::kMonitor>();

}  // namespace allocmark

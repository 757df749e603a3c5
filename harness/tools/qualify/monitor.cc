// See monitor.h. The job "monitor" runs beside the tests until it is ended or nobody listens, and
// tells whenever it has seen something new: the highest temperature and SM clock, all throttle
// reasons, the number of Xid events and the last of them. Reads NVML twice a second; touches no
// GPU.
#include "harness/tools/qualify/monitor.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/nvml.h"

namespace allocmark::qualify {
namespace {

constexpr std::chrono::seconds kMonitorPatience{10};
constexpr std::uint32_t kPeriodMs = 500;

// What was seen on a GPU so far, by the names of NVML's readings.
struct GpuReadings {
  int gpu = 0;
  std::map<std::string, double> values = {};
};

struct Watched {
  int gpu = 0;
  std::unique_ptr<Nvml> nvml;
  std::map<std::string, double> seen;
  std::optional<std::map<std::string, double>> told;
};

void raise(std::map<std::string, double>& values, const char* name, const NvmlReading& reading) {
  if (!reading.value) return;
  const auto [at, fresh] = values.emplace(name, *reading.value);
  if (!fresh) at->second = std::max(at->second, *reading.value);
}

void look(Watched& watched) {
  raise(watched.seen, "celsius_peak", watched.nvml->read("celsius"));
  raise(watched.seen, "sm_mhz_peak", watched.nvml->read("sm_mhz"));
  if (const NvmlReading bits = watched.nvml->read("throttle_bits"); bits.value) {
    double& all = watched.seen["throttle_bits"];
    all = static_cast<double>(static_cast<std::uint64_t>(all) |
                              static_cast<std::uint64_t>(*bits.value));
  }
}

void wait_for_event(Watched& watched, std::uint32_t timeout_ms) {
  if (!watched.seen.contains("xid_count")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
    return;
  }
  if (const auto xid = watched.nvml->next_xid(timeout_ms)) {
    watched.seen["xid_count"] += 1;
    watched.seen["xid_last"] = static_cast<double>(*xid);
  }
}

// Tells until nobody listens.
void run_monitor(const TestSpec& spec, const Tell<GpuReadings>& tell) {
  std::vector<Watched> all;
  for (const int gpu : spec.gpus) {
    Watched watched{.gpu = gpu, .nvml = std::make_unique<Nvml>(), .seen = {}, .told = {}};
    // A GPU that cannot be watched has no values; health says so.
    try {
      (void)watched.nvml->select(pci_bus_id(gpu));
    } catch (const EnvironmentError&) {
      // The same: nothing was selected.
    }
    if (watched.nvml->watch_events().empty()) watched.seen["xid_count"] = 0;
    all.push_back(std::move(watched));
  }
  const std::uint32_t share_ms = std::max<std::uint32_t>(
      1, kPeriodMs / std::max<std::uint32_t>(1, static_cast<std::uint32_t>(all.size())));
  // The first round is quick, so that there is something of every GPU even where the tests are
  // short.
  for (std::uint32_t timeout_ms = 1; !all.empty(); timeout_ms = share_ms) {
    for (Watched& watched : all) {
      look(watched);
      wait_for_event(watched, timeout_ms);
      if (watched.told == watched.seen) continue;
      watched.told = watched.seen;
      tell({.gpu = watched.gpu, .values = watched.seen});
    }
  }
}

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

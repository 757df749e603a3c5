// Job "monitor": runs beside the tests until it is ended or nobody listens, and tells whenever it
// has seen something new: the highest temperature and SM clock, all throttle reasons, the number of
// Xid events and the last of them. Reads NVML twice a second; touches no GPU.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/tools/qualify/gpu_facts.h"
#include "harness/tools/qualify/monitor_process.h"
#include "harness/tools/qualify/nvml.h"

namespace allocmark::qualify {
namespace {

constexpr std::uint32_t kPeriodMs = 500;

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
  if (const auto event = watched.nvml->next_event(timeout_ms)) {
    watched.seen["xid_count"] += 1;
    watched.seen["xid_last"] = static_cast<double>(event->xid);
  }
}

}  // namespace

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

}  // namespace allocmark::qualify

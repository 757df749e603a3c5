#include "harness/simcuda/shim/gpu_faults.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/one_of.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

// Written while the library starts, read only after that.
struct GpuPlan {
  std::mutex mutex;
  std::map<std::pair<int, std::string>, std::string, std::less<>> values;
  struct Counters {
    std::uint64_t calls = 0, frees = 0, views = 0, slow_percent = 0;
    bool lost = false;
  };
  std::array<Counters, kDeviceCountMax> counters;
  double began_s = 0;  // virtual time before this process
};
GpuPlan& gpu_plan() { return made_once<GpuPlan>(); }

bool is_key(std::string_view name) {
  return is_one_of(name, "lost_at", "lost_file", "hang_at", "leak_every", "corrupt_view",
                   "ecc_corrected", "ecc_mode", "retired_pages", "remap_failed", "throttle",
                   "ecc_uncorrected", "foreign_bytes", "celsius", "xid", "sm_mhz", "pcie_width",
                   "no_permission", "nvml_error", "power_limit_mw", "slow_percent", "after_s",
                   "slow_percent_per_hour");
}

// Calls that concern no GPU, or only ask which one is meant.
bool needs_no_gpu(std::string_view name) {
  return is_one_of(name, "cudaSetDevice", "cudaGetDevice", "cudaGetDeviceCount", "cudaGetLastError",
                   "cudaPeekAtLastError", "cudaRuntimeGetVersion", "cudaDeviceGetPCIBusId",
                   "cudaDeviceGetByPCIBusId");
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 20 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::uint64_t grow_in_file(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  std::ofstream(path) << value + 1;
  return value;
}

// Virtual time, as far as the calling thread has come. The plan's mutex is held.
double virtual_s() {
  constexpr double kNsPerS = 1e9;
  return gpu_plan().began_s + static_cast<double>(this_thread().now_ns()) / kNsPerS;
}

// Nothing where it is not planned or has not begun. The plan's mutex is held.
const std::string* find_value(int gpu, std::string_view key) {
  const auto after = gpu_plan().values.find(std::pair(gpu, std::string("after_s")));
  if (after != gpu_plan().values.end() &&
      virtual_s() < static_cast<double>(number_of(after->second))) {
    return nullptr;
  }
  const auto found = gpu_plan().values.find(std::pair(gpu, std::string(key)));
  return found == gpu_plan().values.end() ? nullptr : &found->second;
}

std::uint64_t number_at(int gpu, std::string_view key) {
  const std::string* value = find_value(gpu, key);
  return value == nullptr ? 0 : number_of(*value);
}

void check_lost(int gpu, GpuPlan::Counters& counters) {
  const std::string* file = find_value(gpu, "lost_file");
  const std::uint64_t lost_at = number_at(gpu, "lost_at");
  const bool now = lost_at != 0 && counters.calls >= lost_at;
  if (now && file != nullptr) {
    std::ofstream(*file) << "lost\n";  // so that processes to come find it gone
  }
  std::error_code error;
  counters.lost =
      counters.lost || now || (file != nullptr && std::filesystem::exists(*file, error));
}

}  // namespace

void add_gpu_faults(std::string_view text) {
  const std::lock_guard lock(gpu_plan().mutex);
  if (const char* began = std::getenv("SIMCUDA_TIME_S"); began != nullptr) {
    gpu_plan().began_s = static_cast<double>(number_of(began));
  }
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    if (entry.empty()) continue;
    const std::size_t colon = entry.find(':');
    const std::size_t equals = entry.find('=');
    const bool whole = colon != std::string_view::npos && equals != std::string_view::npos &&
                       colon < equals && is_number(entry.substr(0, colon));
    const std::string_view key = whole ? entry.substr(colon + 1, equals - colon - 1) : "";
    const std::string value(whole ? entry.substr(equals + 1) : "");
    const std::uint64_t gpu = whole ? number_of(std::string(entry.substr(0, colon))) : 0;
    if (!is_key(key) || !(is_number(value) || value.starts_with('/')) || gpu >= kDeviceCountMax) {
      throw std::runtime_error(
          "SIMCUDA_GPU_FAULTS: wanted GPU:KEY=NUMBER or GPU:KEY=/FILE, separated by ';', with the "
          "keys of simcu.h, got '" +
          std::string(entry) + "'");
    }
    gpu_plan().values[{static_cast<int>(gpu), std::string(key)}] = value;
  }
  if (!gpu_plan().values.empty()) slow_reasons.fetch_or(kGpuFaults);
}

std::uint64_t gpu_value(int gpu, std::string_view key, std::uint64_t fallback) {
  const std::lock_guard lock(gpu_plan().mutex);
  const std::string* value = find_value(gpu, key);
  if (value == nullptr) return fallback;
  return value->starts_with('/') ? grow_in_file(*value) : number_of(*value);
}

int next_gpu_fault(int gpu, std::string_view api) {
  if (gpu < 0 || gpu >= kDeviceCountMax || needs_no_gpu(api)) return 0;
  bool hangs = false;
  {
    const std::lock_guard lock(gpu_plan().mutex);
    GpuPlan::Counters& counters = gpu_plan().counters[static_cast<std::size_t>(gpu)];
    ++counters.calls;
    check_lost(gpu, counters);
    if (counters.lost) return cudaErrorUnknown;
    hangs = counters.calls == number_at(gpu, "hang_at");
  }
  while (hangs) std::this_thread::sleep_for(std::chrono::hours(1));
  return 0;
}

bool gpu_is_lost(int gpu) {
  const std::lock_guard lock(gpu_plan().mutex);
  GpuPlan::Counters& counters = gpu_plan().counters[static_cast<std::size_t>(gpu)];
  check_lost(gpu, counters);
  return counters.lost;
}

std::uint64_t stretched_ns(int gpu, std::uint64_t ns) {
  constexpr std::uint64_t kWhole = 100;
  const std::lock_guard lock(gpu_plan().mutex);
  if (const std::uint64_t per_hour = gpu < 0 ? 0 : number_at(gpu, "slow_percent_per_hour")) {
    constexpr double kSecondsPerHour = 3600;
    const double hours = virtual_s() / kSecondsPerHour;
    ns = static_cast<std::uint64_t>(static_cast<double>(ns) *
                                    (1 + hours * static_cast<double>(per_hour) / kWhole));
  }
  const std::string* percent = gpu < 0 ? nullptr : find_value(gpu, "slow_percent");
  if (percent == nullptr) return ns;
  if (!percent->starts_with('/')) return ns * number_of(*percent) / kWhole;
  // Read once: a file's number that grew with every call would take longer than the calls.
  GpuPlan::Counters& counters = gpu_plan().counters[static_cast<std::size_t>(gpu)];
  if (counters.slow_percent == 0) std::ifstream(*percent) >> counters.slow_percent;
  return ns * counters.slow_percent++ / kWhole;
}

bool next_free_leaks(int gpu) {
  const std::lock_guard lock(gpu_plan().mutex);
  const std::uint64_t every = number_at(gpu, "leak_every");
  return every != 0 && ++gpu_plan().counters[static_cast<std::size_t>(gpu)].frees % every == 0;
}

bool next_view_is_corrupt(int gpu) {
  const std::lock_guard lock(gpu_plan().mutex);
  const std::uint64_t nth = number_at(gpu, "corrupt_view");
  return nth != 0 && ++gpu_plan().counters[static_cast<std::size_t>(gpu)].views == nth;
}

}  // namespace simcuda

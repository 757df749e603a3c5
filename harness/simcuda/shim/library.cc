#include "harness/simcuda/shim/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/fault_plan.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/peers.h"
#include "harness/simcuda/shim/profile.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/static_runtime.h"
#include "harness/simcuda/shim/system_library.h"
#include "harness/simcuda/shim/visible_devices.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

struct Library {
  std::once_flag once;
  std::string error;
  std::vector<std::unique_ptr<SimulatedDevice>> devices;  // of the node
  std::once_flag seen_once;
  std::vector<SimulatedDevice*> visible;  // in CUDA's order
};
Library& library() { return made_once<Library>(); }

// A whole positive number from the environment; `fallback` where the variable is not set.
std::uint64_t environment_number(const char* variable, std::uint64_t fallback, std::uint64_t lowest,
                                 std::uint64_t highest) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text, &end, 10);
  if (*end != '\0' || *text == '-' || value < lowest || value > highest) {
    throw std::runtime_error(std::string(variable) + ": wanted a whole number from " +
                             std::to_string(lowest) + " to " + std::to_string(highest) + ", got '" +
                             text + "'");
  }
  return value;
}

StartState environment_start_state() {
  const char* text = std::getenv("SIMCUDA_START");
  const std::string_view name = text == nullptr ? "" : text;
  if (name.empty() || name == "plain") return StartState::Plain;
  if (name == "kernel") return StartState::Kernel;
  if (name == "c10") return StartState::C10;
  throw std::runtime_error("SIMCUDA_START: wanted plain, kernel or c10, got '" + std::string(name) +
                           "'");
}

// Whether the variable has the second of two words; without it the first one holds.
bool is_second_word(const char* variable, std::string_view first, std::string_view second) {
  const char* text = std::getenv(variable);
  const std::string_view word = text == nullptr ? "" : text;
  if (word.empty() || word == first) return false;
  if (word == second) return true;
  throw std::runtime_error(std::string(variable) + ": wanted " + std::string(first) + " or " +
                           std::string(second) + ", got '" + std::string(word) + "'");
}

}  // namespace

std::string folder_of_this_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&start_library), &info) == 0 || info.dli_fname == nullptr) {
    return ".";
  }
  return std::filesystem::path(info.dli_fname).parent_path().string();
}

namespace {

// A thread that only sleeps, as the driver of a GPU has some in every process: the C library takes
// mutexes and its heap's lock without atomic operations while a process has one thread, so that
// allocators that lock would run faster here than on a GPU. All signals are left to the program.
void start_sleeper() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  const auto sleep_for_good = [](void*) -> void* {
    while (true) pause();
  };
  if (pthread_create(&thread, nullptr, sleep_for_good, nullptr) == 0) {
    pthread_detach(thread);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

constexpr std::uint64_t kTotalBytesMax = std::uint64_t{1} << 46;

void start(Library& all) {
  start_sleeper();
  use_mean_costs(is_second_word("SIMCUDA_COSTS", "drawn", "mean"));
  const char* wanted = std::getenv("SIMCUDA_PROFILE");
  Profile profile = load_profile(wanted != nullptr && *wanted != '\0' ? wanted : "h200",
                                 folder_of_this_library() + "/profiles");
  const std::uint64_t count = environment_number("SIMCUDA_DEVICES", 1, 0, kDeviceCountMax);
  const std::uint64_t own_bytes = environment_number("SIMCUDA_HOST_BYTES", 0, 0, kTotalBytesMax);
  const std::uint64_t reserve_bytes =
      environment_number("SIMCUDA_HOST_RESERVE_BYTES", 0, 0, kTotalBytesMax);
  const DeviceSetup setup = {
      .capacity_bytes = environment_number("SIMCUDA_CAPACITY_BYTES", 0, kPageBytes, kTotalBytesMax),
      .start = environment_start_state(),
      .total_bytes = environment_number("SIMCUDA_TOTAL_BYTES", 0, kGiB, kTotalBytesMax),
      .host = {
          .is_one_pool = reserve_bytes > 0,
          .own_bytes = own_bytes,
          .reserve_bytes = reserve_bytes,
          .cached_bytes = environment_number("SIMCUDA_HOST_CACHE_BYTES", 0, 0, kTotalBytesMax)}};
  if (setup.capacity_bytes != 0 && setup.total_bytes != 0) {
    throw std::runtime_error(
        "SIMCUDA_CAPACITY_BYTES and SIMCUDA_TOTAL_BYTES: wanted one of them, got both");
  }
  if (const char* name = std::getenv("SIMCUDA_NAME"); name != nullptr && *name != '\0') {
    profile.device_name = name;
  }
  read_peers();
  for (std::uint64_t i = 0; i < count; ++i) {
    all.devices.push_back(std::make_unique<SimulatedDevice>(
        DevicePlace{.index = static_cast<int>(i), .count = static_cast<int>(count)}, profile,
        setup));
  }
  read_kernel_durations();
  leave_host_caches_warm(is_second_word("SIMCUDA_HOST_CACHES", "cold", "warm"));
  if (const char* faults = std::getenv("SIMCUDA_FAIL"); faults != nullptr) {
    add_faults(faults);
  }
  if (const char* faults = std::getenv("SIMCUDA_GPU_FAULTS"); faults != nullptr) {
    add_gpu_faults(faults);
  }
}

}  // namespace

void start_if_needed() {
  if ((slow_reasons.load() & kNotStarted) != 0) start_library();
}

namespace {

void see_devices_of(Library& all) {
  std::vector<std::string> uuids;
  for (const auto& device : all.devices) uuids.push_back(device_uuid_text(*device));
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  for (std::size_t i = 0; text == nullptr && i < all.devices.size(); ++i) {
    all.visible.push_back(all.devices[i].get());
  }
  if (text == nullptr) return;
  for (const int node_index : visible_devices(text, uuids)) {
    SimulatedDevice* const device = all.devices[static_cast<std::size_t>(node_index)].get();
    device->set_index(static_cast<int>(all.visible.size()));
    all.visible.push_back(device);
  }
}

}  // namespace

void see_devices() {
  start_if_needed();
  Library& all = library();
  std::call_once(all.seen_once, [&] {
    see_devices_of(all);
    release(&all);
  });
}

void start_library() {
  Library& all = library();
  std::call_once(all.once, [&] {
    try {
      start(all);
    } catch (const std::exception& failure) {
      all.error = std::string("simcuda: ") + failure.what();
      std::fprintf(stderr, "%s\n", all.error.c_str());
      slow_reasons.fetch_or(kStartFailed);
    }
    slow_reasons.fetch_and(~static_cast<std::uint32_t>(kNotStarted));
    if (const char* path = std::getenv("SIMCUDA_CALL_LOG"); path != nullptr && *path != '\0') {
      set_call_log(path);
    }
    release(&all);  // every later library() acquires
  });
}

const std::string& start_error() { return library().error; }

int device_count() { return static_cast<int>(library().visible.size()); }

SimulatedDevice* device_at(int index) {
  const Library& all = library();
  const auto place = static_cast<std::size_t>(index);
  return index < 0 || place >= all.visible.size() ? nullptr : all.visible[place];
}

int node_device_count() { return static_cast<int>(library().devices.size()); }

SimulatedDevice* node_device_at(int node_index) {
  const bool is_there = node_index >= 0 && node_index < node_device_count();
  return is_there ? library().devices[static_cast<std::size_t>(node_index)].get() : nullptr;
}

int node_index(int index) {
  const SimulatedDevice* const device = device_at(index);
  return device == nullptr ? index : device->node_index;
}

namespace {

// PyTorch up to 2.6 asks for libcuda.so.1 with RTLD_NOLOAD. The file is ourselves under another
// name, so this only gives the loaded library that name. It lies beside this one.
__attribute__((constructor)) void take_other_names() {
  for (const char* const name : {"libcuda.so.1", "libnvidia-ml.so.1"}) {
    static_cast<void>(open_library(name));
  }
}

__attribute__((constructor)) void look_for_sanitizer() {
  if (hides_from_sanitizer()) slow_reasons.fetch_or(kSanitized);
}

// simcuda-run asks for it: the program's own runtime, if it has one, has not been called yet.
__attribute__((constructor)) void take_static_runtimes() {
  if (std::getenv("SIMCUDA_REDIRECT_STATIC") != nullptr) {
    redirect_static_runtimes();
  }
}

}  // namespace
}  // namespace simcuda

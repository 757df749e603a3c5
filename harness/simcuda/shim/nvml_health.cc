// The part of the simulated NVML that tells whether a GPU is well and whose memory it holds:
// memory, processes, ECC, retired memory, throttling, temperature, PCIe link, events. In: device
// handles. Out: a healthy GPU of our own, unless SIMCUDA_GPU_FAULTS says otherwise.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/nvml_device.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

constexpr unsigned kForeignProcessId = 4242;
constexpr unsigned kPcieLanes = 16;
constexpr unsigned kPcieGeneration = 5;
constexpr unsigned long long kXidEvent = 8;  // nvmlEventTypeXidCriticalError
constexpr int kUncorrectedErrors = 1;        // nvmlMemoryErrorType_t

struct NvmlEventSet {
  std::vector<NvmlDevice*> devices;
  bool delivered = false;
};
// Those that were made and not freed: no other handle is followed.
struct EventSets {
  std::mutex mutex;
  std::vector<std::unique_ptr<NvmlEventSet>> live;

  [[nodiscard]] bool holds(const NvmlEventSet* set) const {
    return std::ranges::any_of(live, [&](const auto& one) { return one.get() == set; });
  }
};
struct NvmlEvent {
  NvmlDevice* device;
  unsigned long long type, data;
  unsigned gpu_instance = 0, compute_instance = 0;
};

std::uint64_t foreign_bytes(const NvmlDevice* handle) {
  return gpu_value(handle->index, "foreign_bytes", 0);
}

// Questions about errors may need rights that a user has not.
NvmlReturn permission(const NvmlDevice* handle) {
  return find(handle) != nullptr && gpu_value(handle->index, "no_permission", 0) != 0
             ? kNoPermission
             : kSuccess;
}

std::vector<NvmlProcess> processes_on(NvmlDevice* handle) {
  std::vector<NvmlProcess> all = {{.process_id = static_cast<unsigned>(getpid())}};
  {
    SimulatedDevice& device = *find(handle);
    const std::lock_guard lock(device.mutex);
    all.front().used_bytes = device.core.total_bytes() - device.core.free_bytes();
  }
  if (const std::uint64_t bytes = foreign_bytes(handle); bytes != 0) {
    all.push_back({.process_id = kForeignProcessId, .used_bytes = bytes});
  }
  return all;
}

// Fills `out` with `count` entries at most; NVML's way to say that there are more.
template <class Process>
int give_processes(NvmlDevice* handle, unsigned* count, Process* out) {
  if (const NvmlReturn refused = check_device(handle, count); refused != kSuccess) return refused;
  const std::vector<NvmlProcess> all = processes_on(handle);
  const unsigned room = *count;
  *count = static_cast<unsigned>(all.size());
  if (room < all.size() || out == nullptr) return kInsufficientSize;
  for (std::size_t i = 0; i < all.size(); ++i) {
    out[i] = {};
    out[i].process_id = all[i].process_id;
    out[i].used_bytes = all[i].used_bytes;
  }
  return kSuccess;
}

}  // namespace

extern "C" {

NVML_EXPORT int nvmlDeviceGetMemoryInfo(NvmlDevice* handle, NvmlMemory* memory) {
  if (const NvmlReturn refused = check_device(handle, memory); refused != kSuccess) return refused;
  SimulatedDevice* const device = find(handle);
  if (device->core.config().host.is_one_pool) return kNotSupported;
  const std::uint64_t foreign = foreign_bytes(handle);
  const std::lock_guard lock(device->mutex);
  memory->total_bytes = device->core.total_bytes();
  memory->free_bytes = device->core.free_bytes() - std::min(device->core.free_bytes(), foreign);
  memory->used_bytes = memory->total_bytes - memory->free_bytes;
  return kSuccess;
}

// What the driver keeps for itself and for this process's context counts as reserved here: nobody
// can tell the two apart.
NVML_EXPORT int nvmlDeviceGetMemoryInfo_v2(NvmlDevice* handle, NvmlMemoryV2* memory) {
  NvmlMemory plain{};
  const int result = memory == nullptr ? kInvalidArgument : nvmlDeviceGetMemoryInfo(handle, &plain);
  if (result == kSuccess) {
    const Profile& profile = find(handle)->profile;
    memory->total_bytes = plain.total_bytes;
    memory->free_bytes = plain.free_bytes;
    memory->reserved_bytes = std::min<unsigned long long>(
        plain.used_bytes, profile.total_bytes - profile.free_bytes_initial);
    memory->used_bytes = plain.used_bytes - memory->reserved_bytes;
  }
  return result;
}

NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses(NvmlDevice* handle, unsigned* count,
                                                     NvmlProcess* processes) {
  return give_processes(handle, count, processes);
}
NVML_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(NvmlDevice* handle, unsigned* count,
                                                        NvmlProcessV3* processes) {
  return give_processes(handle, count, processes);
}

NVML_EXPORT int nvmlDeviceGetEccMode(NvmlDevice* handle, int* current, int* pending) {
  const NvmlReturn result =
      give_planned(handle, current, "ecc_mode", [](const SimulatedDevice& device) {
        int on = 0;
        static_cast<void>(device_attribute(device, cudaDevAttrEccEnabled, on));
        return on;
      });
  if (result == kSuccess && pending != nullptr) *pending = *current;
  return result;
}

NVML_EXPORT int nvmlDeviceGetTotalEccErrors(NvmlDevice* handle, int error_type, int,
                                            unsigned long long* count) {
  if (const NvmlReturn refused = permission(handle); refused != kSuccess) return refused;
  return give_planned(handle, count,
                      error_type == kUncorrectedErrors ? "ecc_uncorrected" : "ecc_corrected", 0);
}

NVML_EXPORT int nvmlDeviceGetRemappedRows(NvmlDevice* handle, unsigned* corrected,
                                          unsigned* uncorrected, unsigned* pending,
                                          unsigned* failed) {
  if (corrected == nullptr || uncorrected == nullptr || pending == nullptr) return kInvalidArgument;
  *corrected = *pending = 0;
  const NvmlReturn result = give_planned(handle, uncorrected, "retired_pages", 0);
  return result == kSuccess ? give_planned(handle, failed, "remap_failed", 0) : result;
}

// GPUs that remap rows retire no pages.
NVML_EXPORT int nvmlDeviceGetRetiredPages(NvmlDevice*, int, unsigned*, unsigned long long*) {
  return kNotSupported;
}
NVML_EXPORT int nvmlDeviceGetRetiredPagesPendingStatus(NvmlDevice*, int*) { return kNotSupported; }

NVML_PLANNED(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "throttle", 0)
NVML_PLANNED(nvmlDeviceGetCurrentClocksEventReasons, unsigned long long, "throttle", 0)

NVML_EXPORT int nvmlDeviceGetTemperature(NvmlDevice* handle, int /*sensor*/, unsigned* celsius) {
  return give_planned(handle, celsius, "celsius", [](const SimulatedDevice& device) {
    return device.profile.temperature_celsius;
  });
}

NVML_PLANNED(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "pcie_width", kPcieLanes)
NVML_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, unsigned, kPcieLanes)

NVML_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, kPcieGeneration)
NVML_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, kPcieGeneration)

NVML_EXPORT int nvmlEventSetCreate(NvmlEventSet** set) {
  if (set == nullptr) return kInvalidArgument;
  EventSets& sets = made_once<EventSets>();
  const std::lock_guard lock(sets.mutex);
  *set = sets.live.emplace_back(std::make_unique<NvmlEventSet>()).get();
  return kSuccess;
}
NVML_EXPORT int nvmlEventSetFree(NvmlEventSet* set) {
  EventSets& sets = made_once<EventSets>();
  const std::lock_guard lock(sets.mutex);
  return std::erase_if(sets.live, [&](const auto& one) { return one.get() == set; }) == 1
             ? kSuccess
             : kInvalidArgument;
}
NVML_EXPORT int nvmlDeviceRegisterEvents(NvmlDevice* handle, unsigned long long /*types*/,
                                         NvmlEventSet* set) {
  if (find(handle) == nullptr || set == nullptr) return kInvalidArgument;
  if (const NvmlReturn refused = permission(handle); refused != kSuccess) return refused;
  EventSets& sets = made_once<EventSets>();
  const std::lock_guard lock(sets.mutex);
  if (!sets.holds(set)) return kInvalidArgument;
  set->devices.push_back(handle);
  return kSuccess;
}

// One Xid for the first GPU that has one planned; nothing happens after that.
NVML_EXPORT int nvmlEventSetWait_v2(NvmlEventSet* set, NvmlEvent* event, unsigned timeout_ms) {
  if (set == nullptr || event == nullptr) return kInvalidArgument;
  {
    EventSets& sets = made_once<EventSets>();
    const std::lock_guard lock(sets.mutex);
    if (!sets.holds(set)) return kInvalidArgument;
    for (NvmlDevice* device : set->devices) {
      const std::uint64_t xid = set->delivered ? 0 : gpu_value(device->index, "xid", 0);
      if (xid != 0) {
        set->delivered = true;
        *event = {.device = device, .type = kXidEvent, .data = xid};
        return kSuccess;
      }
    }
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(timeout_ms));
  return kTimeout;
}

}  // extern "C"

}  // namespace simcuda

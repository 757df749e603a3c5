// What the files of the simulated NVML share: its error codes, handles and structures, as in NVML's
// public interface, and the way from a handle to a simulated device.
#pragma once

#include <array>
#include <cstdint>

#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

#define NVML_EXPORT __attribute__((visibility("default")))
// A function that gives one number: `value` as give_number() takes it, or what is planned under
// `key`.
#define NVML_NUMBER(name, Number, value) \
  NVML_EXPORT int name(NvmlDevice* handle, Number* out) { return give_number(handle, out, value); }
#define NVML_PLANNED(name, Number, key, fallback)         \
  NVML_EXPORT int name(NvmlDevice* handle, Number* out) { \
    return give_planned(handle, out, key, fallback);      \
  }

namespace simcuda {

enum NvmlReturn : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kTimeout = 10,
  kGpuIsLost = 15,
};

// Handles are pointers to the devices' indexes. Others are not followed.
struct NvmlDevice {
  int index;
};
extern std::array<NvmlDevice, kDeviceCountMax> nvml_devices;

struct NvmlMemory {
  unsigned long long total_bytes, free_bytes, used_bytes;
};
struct NvmlMemoryV2 {
  unsigned version;
  unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
};
struct NvmlProcess {  // version 1, what the unversioned symbol fills
  unsigned process_id;
  unsigned long long used_bytes = 0;
};
struct NvmlProcessV3 {
  unsigned process_id;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

[[nodiscard]] inline SimulatedDevice* find(const NvmlDevice* handle) {
  const std::uintptr_t offset = reinterpret_cast<std::uintptr_t>(handle) -
                                reinterpret_cast<std::uintptr_t>(nvml_devices.data());
  const bool ours = offset < sizeof nvml_devices && offset % sizeof(NvmlDevice) == 0;
  return ours ? node_device_at(handle->index) : nullptr;
}

// Whether the GPU can be asked for what goes to `out`.
[[nodiscard]] inline NvmlReturn check_device(const NvmlDevice* handle, const void* out) {
  const SimulatedDevice* device = find(handle);
  if (device == nullptr || out == nullptr) return kInvalidArgument;
  return gpu_is_lost(device->node_index) ? kGpuIsLost : kSuccess;
}

// `value`: what is given, or a function of the device that says it.
template <class Number, class Value>
NvmlReturn give_number(const NvmlDevice* handle, Number* out, Value value) {
  if (const NvmlReturn refused = check_device(handle, out); refused != kSuccess) return refused;
  if constexpr (requires(const SimulatedDevice& device) { value(device); }) {
    *out = static_cast<Number>(value(*find(handle)));
  } else {
    *out = static_cast<Number>(value);
  }
  return kSuccess;
}

// The same for a value that SIMCUDA_GPU_FAULTS may plan under `key`. `fallback`: as `value` above.
template <class Number, class Fallback>
NvmlReturn give_planned(const NvmlDevice* handle, Number* out, const char* key, Fallback fallback) {
  const NvmlReturn given = give_number(handle, out, fallback);
  if (given == kSuccess) {
    *out = static_cast<Number>(
        gpu_value(find(handle)->node_index, key, static_cast<std::uint64_t>(*out)));
  }
  return given;
}

// For what simulated GPUs do not have.
[[nodiscard]] inline NvmlReturn give_nothing(const NvmlDevice* handle, const void* out) {
  return find(handle) == nullptr || out == nullptr ? kInvalidArgument : kNotSupported;
}

}  // namespace simcuda

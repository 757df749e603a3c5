// Device selection, attributes, properties, versions, limits, and the error state. In:
// device numbers. Out: what the profile says about the device.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t give_properties(ThreadState& thread, cudaDeviceProp* properties, int index) {
  const SimulatedDevice* device = device_at(index);
  if (properties == nullptr) return cudaErrorInvalidValue;
  if (device == nullptr) return cudaErrorInvalidDevice;
  thread.charge(CostId::GetDeviceProperties);
  fill_properties(*device, *properties);
  return cudaSuccess;
}

cudaError_t give_attribute(ThreadState& thread, int* value, int attribute, int index) {
  thread.charge(CostId::DeviceGetAttribute);
  const SimulatedDevice* device = device_at(index);
  if (value == nullptr) return cudaErrorInvalidValue;
  if (device == nullptr) return cudaErrorInvalidDevice;
  return device_attribute(*device, attribute, *value) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t give_pci_bus_id(char* text, int length, int index) {
  const SimulatedDevice* device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  if (text == nullptr || length <= 0) return cudaErrorInvalidValue;
  const std::string id = pci_bus_id(*device);
  std::snprintf(text, static_cast<std::size_t>(length), "%s", id.c_str());
  return static_cast<std::size_t>(length) > id.size() ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t find_pci_bus_id(int* index, const char* text) {
  if (index == nullptr || text == nullptr) return cudaErrorInvalidValue;
  for (int i = 0; i < device_count(); ++i) {
    if (same_pci_bus_id(*device_at(i), text)) {
      *index = i;
      return cudaSuccess;
    }
  }
  return cudaErrorInvalidDevice;
}

// Calls `use` with the limit of the thread's device.
template <class Use>
cudaError_t with_limit(const ThreadState& thread, int limit, Use use) {
  SimulatedDevice* device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  const std::lock_guard lock(device->mutex);
  const auto found = device->limits.find(limit);
  if (found == device->limits.end()) return cudaErrorUnsupportedLimit;
  use(found->second);
  return cudaSuccess;
}

cudaError_t get_limit(const ThreadState& thread, std::size_t* value, int limit) {
  if (value == nullptr) return cudaErrorInvalidValue;
  return with_limit(thread, limit, [&](std::uint64_t kept) { *value = kept; });
}

// Kept as it was asked for. No memory is taken for it.
cudaError_t set_limit(const ThreadState& thread, int limit, std::size_t value) {
  return with_limit(thread, limit, [&](std::uint64_t& kept) { kept = value; });
}

cudaError_t done(const ThreadState& thread) {
  return current_device(thread) == nullptr ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace

int driver_version() {
  const SimulatedDevice* device = device_at(0);
  return device == nullptr ? CUDART_VERSION
                           : std::max(device->profile.cuda_version, CUDART_VERSION);
}

SIMCUDA_EXPORT cudaError_t cudaGetDevice(int* index) {
  return runtime_call<"cudaGetDevice">({}, [&](ThreadState& thread) {
    thread.charge(CostId::GetDevice);
    if (index == nullptr) return cudaErrorInvalidValue;
    if (device_count() == 0) return cudaErrorNoDevice;
    *index = thread.device;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaSetDevice(int index) {
  return runtime_call<"cudaSetDevice">({as_number(index)}, [&](ThreadState& thread) {
    thread.charge(CostId::SetDevice);
    if (device_at(index) == nullptr) {
      return device_count() == 0 ? cudaErrorNoDevice : cudaErrorInvalidDevice;
    }
    thread.device = index;
    use_primary_context(thread);
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  return runtime_call<"cudaGetDeviceCount">({}, [&](ThreadState& thread) {
    thread.charge(CostId::GetDevice);
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = device_count();
    return *count == 0 ? cudaErrorNoDevice : cudaSuccess;
  });
}

SIMCUDA_RUNTIME(cudaInitDevice, (int index, unsigned int /*device_flags*/, unsigned int /*flags*/),
                (as_number(index)),
                device_at(index) == nullptr ? cudaErrorInvalidDevice : cudaSuccess)

SIMCUDA_RUNTIME(cudaSetDeviceFlags, (unsigned int flags), (flags),
                (flags & ~static_cast<unsigned>(cudaDeviceMask)) == 0 ? cudaSuccess
                                                                      : cudaErrorInvalidValue)

// What an H200 answers.
SIMCUDA_RUNTIME(cudaGetDeviceFlags, (unsigned int* flags), (), give_value(flags, cudaDeviceMapHost))

// Defined under the name that the toolkit's header gives it: CUDA 12 appends _v2.
SIMCUDA_RUNTIME(cudaGetDeviceProperties, (cudaDeviceProp * properties, int index),
                (as_number(index)), give_properties(thread, properties, index))

SIMCUDA_RUNTIME(cudaDeviceGetAttribute, (int* value, cudaDeviceAttr attribute, int index),
                (as_number(attribute), as_number(index)),
                give_attribute(thread, value, attribute, index))
SIMCUDA_DRIVER(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice index),
               (as_number(attribute)), give_attribute(thread, value, attribute, index))

SIMCUDA_TWINS(cudaDeviceGetPCIBusId, cuDeviceGetPCIBusId, (char* text, int length, int index),
              (as_number(index)), give_pci_bus_id(text, length, index))
SIMCUDA_TWINS(cudaDeviceGetByPCIBusId, cuDeviceGetByPCIBusId, (int* index, const char* text), (),
              find_pci_bus_id(index, text))

SIMCUDA_PAIR(cudaDeviceGetLimit, (size_t * value, cudaLimit limit), cuCtxGetLimit,
             (size_t * value, CUlimit limit), (as_number(limit)), get_limit(thread, value, limit))

SIMCUDA_PAIR(cudaDeviceSetLimit, (cudaLimit limit, size_t value), cuCtxSetLimit,
             (CUlimit limit, size_t value), (as_number(limit), value),
             set_limit(thread, limit, value))

SIMCUDA_RUNTIME(cudaRuntimeGetVersion, (int* version), (), give_value(version, CUDART_VERSION))

SIMCUDA_TWINS(cudaDriverGetVersion, cuDriverGetVersion, (int* version), (),
              give_value(version, driver_version()))

SIMCUDA_EXPORT cudaError_t cudaGetLastError() {
  return detail::call<"cudaGetLastError", false, cudaError_t>({}, [](ThreadState& state) {
    state.charge(CostId::GetLastError);
    return std::exchange(state.last_error, cudaSuccess);
  });
}

SIMCUDA_EXPORT cudaError_t cudaPeekAtLastError() {
  return detail::call<"cudaPeekAtLastError", false, cudaError_t>({}, [](ThreadState& state) {
    state.charge(CostId::GetLastError);
    return state.last_error;
  });
}

// A stream has all processors. The runtime's struct is the driver's; CUDA 13.0 does not declare it.
SIMCUDA_EXPORT cudaError_t cudaStreamGetDevResource(cudaStream_t stream, CUdevResource* resource,
                                                    int type) {
  return runtime_call<"cudaStreamGetDevResource">(
      {number(stream), as_number(type)}, [&](ThreadState& state) {
        const SimulatedDevice* const device = current_device(state);
        if (device == nullptr) return cudaErrorNoDevice;
        if (resource == nullptr || type != CU_DEV_RESOURCE_TYPE_SM) return cudaErrorInvalidValue;
        constexpr unsigned kProcessorsOfGroup = 8;  // since 9.0, by NVIDIA's manual
        resource->type = CU_DEV_RESOURCE_TYPE_SM;
        resource->sm.smCount =
            static_cast<unsigned>(device->attribute(cudaDevAttrMultiProcessorCount));
        resource->sm.minSmPartitionSize = kProcessorsOfGroup;
        resource->sm.smCoscheduledAlignment = kProcessorsOfGroup;
        return cudaSuccess;
      });
}

// A profiler would have nothing to see, and there is no cache whose lines persist.
SIMCUDA_TWINS(cudaProfilerStart, cuProfilerStart, (), (), done(thread))
SIMCUDA_TWINS(cudaProfilerStop, cuProfilerStop, (), (), done(thread))
SIMCUDA_TWINS(cudaCtxResetPersistingL2Cache, cuCtxResetPersistingL2Cache, (), (), done(thread))

}  // namespace simcuda

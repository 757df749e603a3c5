// The driver's initialisation and questions about devices. In: device numbers. Out: what the
// runtime's functions answer, as CUresult.
#include <bit>
#include <cstdio>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t get_device(ThreadState& thread, CUdevice* device, int index) {
  thread.charge(CostId::GetDevice);
  return give_of_device(device, index, [&](const SimulatedDevice&) { return index; });
}

std::uint64_t total_bytes_of(const SimulatedDevice& device) { return device.core.total_bytes(); }

CUuuid uuid_of(const SimulatedDevice& device) { return std::bit_cast<CUuuid>(device_uuid(device)); }

}  // namespace

SIMCUDA_EXPORT CUresult cuInit(unsigned int flags) {
  return driver_call<"cuInit">({flags}, [&](ThreadState&) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    see_devices();
    slow_reasons.fetch_and(~static_cast<std::uint32_t>(kNoInit));
    return device_count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  });
}

SIMCUDA_DRIVER(cuDeviceGetCount, (int* count), (), give_value(count, device_count()))
SIMCUDA_DRIVER(cuDeviceGet, (CUdevice * device, int index), (as_number(index)),
               get_device(thread, device, index))

SIMCUDA_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice index) {
  return driver_call<"cuDeviceGetName">({as_number(index)}, [&](ThreadState&) {
    const SimulatedDevice* device = device_at(index);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
    std::snprintf(name, static_cast<std::size_t>(length), "%s",
                  device->profile.device_name.c_str());
    return CUDA_SUCCESS;
  });
}

// Defined under the name that the header gives it (cuDeviceTotalMem_v2).
SIMCUDA_DRIVER(cuDeviceTotalMem, (size_t * bytes, CUdevice index), (as_number(index)),
               give_of_device(bytes, index, total_bytes_of))

SIMCUDA_FUNCTION(driver_call, CUresult, cuDeviceGetUuid_v2, "cuDeviceGetUuid",
                 (CUuuid * uuid, CUdevice index), (as_number(index)),
                 as_result(give_of_device(uuid, index, uuid_of)))

SIMCUDA_EXPORT CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice index) {
  return driver_call<"cuDeviceComputeCapability">({as_number(index)}, [&](ThreadState&) {
    const SimulatedDevice* device = device_at(index);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *major = device->attribute(cudaDevAttrComputeCapabilityMajor);
    *minor = device->attribute(cudaDevAttrComputeCapabilityMinor);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetLuid(char* luid, unsigned int* mask, CUdevice index) {
  return driver_call<"cuDeviceGetLuid">({as_number(index)}, [&](ThreadState&) {
    if (device_at(index) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    return luid == nullptr || mask == nullptr ? CUDA_ERROR_INVALID_VALUE
                                              : CUDA_ERROR_NOT_SUPPORTED;  // Windows alone has it
  });
}

}  // namespace simcuda

// The driver calls beside memory management: initialisation, devices, the primary context. In:
// device numbers. Out: what the runtime calls answer, as CUresult.
#include <cstdio>
#include <cstring>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/device_properties.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

// A context is only a name for its device.
CUcontext context_of(int index) {
  return reinterpret_cast<CUcontext>(static_cast<std::uint64_t>(index + 1) << 12);
}

int device_of_context(CUcontext context) { return static_cast<int>(number(context) >> 12) - 1; }

}  // namespace

SIMCUDA_EXPORT CUresult cuInit(unsigned int flags) {
  return driver_call<"cuInit">({flags}, [&](ThreadState&) {
    if (flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return device_count() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDriverGetVersion(int* version) {
  return driver_call<"cuDriverGetVersion">({}, [&](ThreadState&) {
    if (version == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return static_cast<CUresult>(cudaDriverGetVersion(version));
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetCount(int* count) {
  return driver_call<"cuDeviceGetCount">({}, [&](ThreadState&) {
    if (count == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *count = device_count();
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGet(CUdevice* device, int index) {
  return driver_call<"cuDeviceGet">({static_cast<std::uint64_t>(index)}, [&](ThreadState& thread) {
    thread.charge(CostId::GetDevice);
    if (device == nullptr || device_at(index) == nullptr) {
      return device == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    *device = index;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                             CUdevice index) {
  return driver_call<"cuDeviceGetAttribute">(
      {static_cast<std::uint64_t>(attribute)}, [&](ThreadState& thread) {
        thread.charge(CostId::DeviceGetAttribute);
        const SimulatedDevice* device = device_at(index);
        if (value == nullptr || device == nullptr) {
          return value == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
        }
        return device_attribute(*device, attribute, *value) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_INVALID_VALUE;
      });
}

SIMCUDA_EXPORT CUresult cuDeviceGetName(char* name, int length, CUdevice index) {
  return driver_call<"cuDeviceGetName">({static_cast<std::uint64_t>(index)}, [&](ThreadState&) {
    const SimulatedDevice* device = device_at(index);
    if (name == nullptr || length <= 0 || device == nullptr) {
      return device == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    std::snprintf(name, static_cast<std::size_t>(length), "%s",
                  device->profile.device_name.c_str());
    return CUDA_SUCCESS;
  });
}

// Defined under the name that the header gives it (cuDeviceTotalMem_v2).
SIMCUDA_EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice index) {
  return driver_call<"cuDeviceTotalMem">({static_cast<std::uint64_t>(index)}, [&](ThreadState&) {
    const SimulatedDevice* device = device_at(index);
    if (bytes == nullptr || device == nullptr) {
      return bytes == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = device->core.total_bytes();
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice index) {
  return driver_call<"cuDeviceGetUuid">({static_cast<std::uint64_t>(index)}, [&](ThreadState&) {
    const SimulatedDevice* device = device_at(index);
    if (uuid == nullptr || device == nullptr) {
      return uuid == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    const std::array<std::uint8_t, 16> bytes = device_uuid(*device);
    std::memcpy(uuid->bytes, bytes.data(), bytes.size());
    return CUDA_SUCCESS;
  });
}

// Defined under the name that the header gives it (cuMemGetInfo_v2).
SIMCUDA_EXPORT CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return driver_call<"cuMemGetInfo">({}, [&](ThreadState&) {
    return static_cast<CUresult>(cudaMemGetInfo(free_bytes, total_bytes));
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetCurrent(CUcontext* context) {
  return driver_call<"cuCtxGetCurrent">({}, [&](ThreadState& thread) {
    if (context == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *context = context_of(thread.device);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return driver_call<"cuCtxSetCurrent">({number(context)}, [&](ThreadState& thread) {
    if (context == nullptr) {
      return CUDA_SUCCESS;
    }
    if (device_at(device_of_context(context)) == nullptr) {
      return CUDA_ERROR_INVALID_CONTEXT;
    }
    thread.device = device_of_context(context);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  return driver_call<"cuCtxGetDevice">({}, [&](ThreadState& thread) {
    if (device == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *device = thread.device;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice index) {
  return driver_call<"cuDevicePrimaryCtxRetain">(
      {static_cast<std::uint64_t>(index)}, [&](ThreadState&) {
        if (context == nullptr || device_at(index) == nullptr) {
          return context == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
        }
        *context = context_of(index);
        return CUDA_SUCCESS;
      });
}

SIMCUDA_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice index, unsigned int* flags,
                                                   int* active) {
  return driver_call<"cuDevicePrimaryCtxGetState">(
      {static_cast<std::uint64_t>(index)}, [&](ThreadState&) {
        if (device_at(index) == nullptr || flags == nullptr || active == nullptr) {
          return device_at(index) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
        }
        *flags = 0;
        *active = 1;
        return CUDA_SUCCESS;
      });
}

// Old names without suffix, for programs that look them up by dlsym.
#undef cuMemGetInfo
#undef cuDeviceTotalMem
#undef cuDeviceGetUuid
SIMCUDA_EXPORT CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return cuMemGetInfo_v2(free_bytes, total_bytes);
}
SIMCUDA_EXPORT CUresult cuDeviceTotalMem(size_t* bytes, CUdevice index) {
  return cuDeviceTotalMem_v2(bytes, index);
}
SIMCUDA_EXPORT CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice index) {
  return cuDeviceGetUuid_v2(uuid, index);
}

}  // namespace simcuda

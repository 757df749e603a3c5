// Handles of memory as programs see them: the core's, with their device; and those that leave the
// process as files.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "harness/simcuda/core/virtual_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Handles of different devices differ in their upper bits.
inline constexpr int kDeviceShift = 48;
[[nodiscard]] inline CUmemGenericAllocationHandle to_handle(const SimulatedDevice& device,
                                                            MemoryHandle handle) {
  return handle | (static_cast<std::uint64_t>(device.index) << kDeviceShift);
}
[[nodiscard]] inline SimulatedDevice* device_of_handle(CUmemGenericAllocationHandle handle) {
  return device_at(static_cast<int>(handle >> kDeviceShift));
}
[[nodiscard]] inline MemoryHandle core_handle(CUmemGenericAllocationHandle handle) {
  return handle & ((std::uint64_t{1} << kDeviceShift) - 1);
}

[[nodiscard]] inline bool has_file_handles(const CUmemAllocationProp& properties) {
  return (properties.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
}

// The new handle's bytes go into a file of their own, which can be exported. Where the system gives
// no file, the handle has none.
void put_into_own_file(SimulatedDevice& device, MemoryHandle handle, std::uint64_t size_bytes);

}  // namespace simcuda

// What both APIs say about pointers: kind, device, range. In: addresses of device memory, pinned
// host memory or neither. Out: attributes; CUDA_ERROR_INVALID_VALUE for an address that CUDA does
// not know, as on a GPU.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "harness/simcuda/shim/contexts.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct PointerPlace {
  SimulatedDevice* device = nullptr;
  Range range;                   // empty: unknown
  std::uint64_t size_bytes = 0;  // as the program asked
  MemoryKind kind = MemoryKind::None;
  bool is_managed = false;
  int index = 0;  // of the device
};

PointerPlace find_pointer_place(const ThreadState& thread, CUdeviceptr address) {
  SimulatedDevice* const device = device_of_address(address);
  if (device == nullptr) {
    void* const pointer = reinterpret_cast<void*>(address);
    const ManagedBlock managed = managed_block(pointer);
    if (managed.range.lo != 0) {
      return {.range = managed.range,
              .size_bytes = managed.range.size_bytes(),
              .is_managed = true,
              .index = managed.device};
    }
    const Range range = host_allocation(pointer);
    return {.range = range, .size_bytes = range.size_bytes(), .index = thread.device};
  }
  const std::lock_guard lock(device->mutex);
  MemoryBlock block = device->core.find(address);
  if (const Range opened = device->shared.opened_at(address); !opened.empty()) {
    block.range = opened;
    block.asked_bytes = opened.size_bytes();
  }
  return {.device = device,
          .range = block.range,
          .size_bytes = block.asked_bytes,
          .kind = block.kind,
          .index = device->index};
}

cudaError_t runtime_attributes(ThreadState& thread, cudaPointerAttributes* attributes,
                               const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  thread.charge(CostId::PointerGetAttributes);
  void* const plain = const_cast<void*>(pointer);
  const PointerPlace place = find_pointer_place(thread, number(pointer));
  *attributes = {};
  if (place.range.empty()) {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = plain;
    return cudaSuccess;
  }
  attributes->type = place.device != nullptr ? cudaMemoryTypeDevice
                     : place.is_managed      ? cudaMemoryTypeManaged
                                             : cudaMemoryTypeHost;
  attributes->device = place.index;
  attributes->devicePointer = plain;
  if (place.device == nullptr) attributes->hostPointer = plain;
  return cudaSuccess;
}

template <class T>
CUresult give(void* data, T value) {
  std::memcpy(data, &value, sizeof value);
  return CUDA_SUCCESS;
}

CUresult give_attribute(const ThreadState& thread, void* data, CUpointer_attribute attribute,
                        CUdeviceptr address) {
  if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PointerPlace place = find_pointer_place(thread, address);
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) return give(data, !place.range.empty());
  if (place.range.empty()) return CUDA_ERROR_INVALID_VALUE;
  const bool is_host = place.device == nullptr;
  const int index = place.index;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, &primary_context(index));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, is_host && !place.is_managed ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return is_host ? give(data, address) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, place.is_managed);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return give(data, place.kind == MemoryKind::Heap);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return give(data, false);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(place.range.lo));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, index);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(data, static_cast<CUdeviceptr>(place.range.lo));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(data, static_cast<std::size_t>(place.size_bytes));
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return give(data, place.kind == MemoryKind::Pool ? place.device->default_pool : nullptr);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

// Unlike one attribute alone, many are no error for an unknown address: what is unknown reads as 0.
CUresult give_attributes(ThreadState& thread, unsigned count, CUpointer_attribute* attributes,
                         void** data, CUdeviceptr address) {
  thread.charge(CostId::PointerGetAttributes);
  if (attributes == nullptr || data == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (give_attribute(thread, data[i], attributes[i], address) == CUDA_SUCCESS) continue;
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        give(data[i], false);
        break;
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        give(data[i], 0);
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        give(data[i], -2);  // CU_DEVICE_INVALID
        break;
      default:
        give(data[i], CUdeviceptr{0});
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_RUNTIME(cudaPointerGetAttributes, (cudaPointerAttributes * attributes, const void* pointer),
                (number(pointer)), runtime_attributes(thread, attributes, pointer))

SIMCUDA_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                              CUdeviceptr address) {
  return driver_call<"cuPointerGetAttribute">(
      {as_number(attribute), address}, [&](ThreadState& thread) {
        thread.charge(CostId::PointerGetAttributes);
        return give_attribute(thread, data, attribute, address);
      });
}

SIMCUDA_DRIVER(cuPointerGetAttributes,
               (unsigned int count, CUpointer_attribute* attributes, void** data,
                CUdeviceptr address),
               (count, address), give_attributes(thread, count, attributes, data, address))

// Defined under the name that the header gives it (cuMemGetAddressRange_v2).
SIMCUDA_EXPORT CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* size_bytes,
                                             CUdeviceptr address) {
  return driver_call<"cuMemGetAddressRange">({address}, [&](const ThreadState& thread) {
    const PointerPlace place = find_pointer_place(thread, address);
    if (place.range.empty()) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = place.range.lo;
    if (size_bytes != nullptr) *size_bytes = place.size_bytes;
    return CUDA_SUCCESS;
  });
}

// Work on the memory is synchronous with the host here anyway.
SIMCUDA_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                              CUdeviceptr address) {
  return driver_call<"cuPointerSetAttribute">(
      {as_number(attribute), address}, [&](const ThreadState& thread) {
        const bool known = attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS;
        return value == nullptr || !known || find_pointer_place(thread, address).range.empty()
                   ? CUDA_ERROR_INVALID_VALUE
                   : CUDA_SUCCESS;
      });
}

}  // namespace simcuda

// The driver's virtual memory management: reserve, create, map, set access, and back. In: what the
// driver calls take. Out: the core's answers as CUresult, and mapped contents kept in step.
#include <algorithm>
#include <mutex>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/gaps.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_handles.h"
#include "harness/simcuda/shim/peers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

CUresult to_result(Status status) {
  return status == Status::InvalidHandle ? CUDA_ERROR_INVALID_VALUE : as_result(to_error(status));
}

// Runs `body` on the device under its lock; InvalidValue where there is none.
template <class Body>
CUresult with_device(ThreadState& thread, SimulatedDevice* device, Body body) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const TickScope ticks(thread);
  const std::lock_guard lock(device->mutex);
  return body(*device);
}

CUresult check_properties(ThreadState& thread, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return as_result(lack(thread, "cuMemCreate of host memory",
                          "simcuda: memory handles are for device memory only"));
  }
  return device_at(properties->location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult reserve(ThreadState& thread, CUdeviceptr* pointer, std::size_t size_bytes,
                 std::size_t alignment_bytes, unsigned long long flags) {
  SimulatedDevice* device = current_device(thread);
  if (device == nullptr) return CUDA_ERROR_NO_DEVICE;
  if (pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const TickScope ticks(thread);
  const std::lock_guard lock(device->mutex);
  thread.charge(CostId::AddressReserve, size_bytes);
  const AllocationOutcome outcome =
      device->core.virtual_memory().reserve(size_bytes, alignment_bytes);
  if (outcome.status == Status::Ok) {
    *pointer = outcome.address;
  }
  return to_result(outcome.status);
}

CUresult free_reservation(ThreadState& thread, CUdeviceptr address, std::size_t size_bytes) {
  return with_device(thread, device_of_address(address), [&](SimulatedDevice& device) {
    thread.charge(CostId::AddressFree, size_bytes);
    return to_result(device.core.virtual_memory().free_reservation(address, size_bytes).status);
  });
}

CUresult create(ThreadState& thread, CUmemGenericAllocationHandle* handle, std::size_t size_bytes,
                const CUmemAllocationProp* properties, unsigned long long flags) {
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check_properties(thread, properties); bad != CUDA_SUCCESS) return bad;
  SimulatedDevice& device = *device_at(properties->location.id);
  const TickScope ticks(thread);
  const std::lock_guard lock(device.mutex);
  const HandleOutcome outcome = device.core.virtual_memory().create(size_bytes);
  charge_work(thread, device, outcome.work);
  thread.charge(outcome.status == Status::OutOfMemory ? CostId::MallocFailed : CostId::MemCreate,
                size_bytes, device.core.used_bytes());
  if (outcome.status == Status::Ok) {
    device.handles[outcome.handle] = {
        .size_bytes = size_bytes, .reference_count = 1, .properties = *properties};
    *handle = to_handle(device, outcome.handle);
    if (has_file_handles(*properties)) put_into_own_file(device, outcome.handle, size_bytes);
  }
  return to_result(outcome.status);
}

CUresult release_physical(ThreadState& thread, CUmemGenericAllocationHandle handle) {
  return with_device(thread, device_of_handle(handle), [&](SimulatedDevice& device) {
    const MemoryHandle id = core_handle(handle);
    const std::uint64_t size_bytes = device.core.virtual_memory().handle_bytes(id);
    const Outcome outcome = device.core.virtual_memory().release(id);
    charge_work(thread, device, outcome.work);
    thread.charge(CostId::MemRelease, size_bytes);
    if (outcome.status == Status::Ok) {
      --device.handles[id].reference_count;
      device.drop_if_unused(id);
    }
    return to_result(outcome.status);
  });
}

CUresult retain(ThreadState& thread, CUmemGenericAllocationHandle* handle, void* address) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_device(thread, device_of_address(number(address)), [&](SimulatedDevice& device) {
    const HandleOutcome outcome = device.core.virtual_memory().retain(number(address));
    if (outcome.status == Status::Ok) {
      ++device.handles[outcome.handle].reference_count;
      *handle = to_handle(device, outcome.handle);
    }
    return to_result(outcome.status);
  });
}

CUresult map(ThreadState& thread, CUdeviceptr address, std::size_t size_bytes,
             std::size_t offset_bytes, CUmemGenericAllocationHandle handle,
             unsigned long long flags) {
  SimulatedDevice* const holder = device_of_handle(handle);
  if (flags != 0 || holder != device_of_address(address)) return CUDA_ERROR_INVALID_VALUE;
  return with_device(thread, holder, [&](SimulatedDevice& device) {
    thread.charge(CostId::MemMap, size_bytes);
    const MemoryHandle id = core_handle(handle);
    const std::uint64_t whole_bytes = device.core.virtual_memory().handle_bytes(id);
    if (whole_bytes != 0 && (size_bytes != whole_bytes || offset_bytes != 0)) {
      return CUDA_ERROR_NOT_SUPPORTED;  // measured: a handle can only be mapped whole
    }
    const Outcome outcome = device.core.virtual_memory().map(address, size_bytes, offset_bytes, id);
    if (outcome.status == Status::Ok) {
      ++device.handles[id].mapping_count;
    }
    return to_result(outcome.status);
  });
}

CUresult unmap(ThreadState& thread, CUdeviceptr address, std::size_t size_bytes) {
  return with_device(thread, device_of_address(address), [&](SimulatedDevice& device) {
    VirtualMemory& memory = device.core.virtual_memory();
    std::vector<MemoryHandle> mapped;
    const std::uint64_t end =
        address + std::min<std::uint64_t>(size_bytes, device.contents.area_window().hi);
    for (std::uint64_t at = address; at < end;) {
      const Mapping mapping = memory.find(at);
      if (mapping.handle != 0) mapped.push_back(mapping.handle);
      at = mapping.handle != 0 ? mapping.range.hi : at + kPageBytes;
    }
    const Outcome outcome = memory.unmap(address, size_bytes);
    charge_work(thread, device, outcome.work);
    thread.charge(CostId::MemUnmap, size_bytes);
    if (outcome.status == Status::Ok) {
      device.contents.detach({address, end});
      for (const MemoryHandle handle : mapped) {
        --device.handles[handle].mapping_count;
        device.drop_if_unused(handle);
      }
    }
    return to_result(outcome.status);
  });
}

// The driver goes through the mappings of the range one by one (measured).
void charge_access(ThreadState& thread, SimulatedDevice& device, Range range) {
  for (std::uint64_t at = range.lo; at < range.hi;) {
    const Mapping mapping = device.core.virtual_memory().find(at);
    if (mapping.handle == 0) break;  // refused below
    thread.charge(CostId::MemSetAccess, mapping.range.hi - mapping.range.lo);
    at = mapping.range.hi;
  }
}

CUresult set_access(ThreadState& thread, CUdeviceptr address, std::size_t size_bytes,
                    const CUmemAccessDesc* descriptions, std::size_t count) {
  if (descriptions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  return with_device(thread, device_of_address(address), [&](SimulatedDevice& device) {
    charge_access(thread, device, {address, address + size_bytes});
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc& wanted = descriptions[i];
      if (wanted.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
          device_at(wanted.location.id) == nullptr) {
        return CUDA_ERROR_INVALID_DEVICE;
      }
      const bool own = wanted.location.id == device.index;
      if (!own && !can_be_peers(wanted.location.id, device.index)) {
        thread.last_message =
            "simcuda: SIMCUDA_PEERS says that devices are not peers of each other";
        return CUDA_ERROR_NOT_SUPPORTED;
      }
      const Access access = wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? Access::ReadWrite
                            : wanted.flags == CU_MEM_ACCESS_FLAGS_PROT_READ    ? Access::Read
                                                                               : Access::None;
      VirtualMemory& memory = device.core.virtual_memory();
      const Outcome outcome =
          own ? memory.set_access(address, size_bytes, access)
              : memory.set_peer_access(address, size_bytes,
                                       static_cast<unsigned>(wanted.location.id), access);
      if (outcome.status != Status::Ok) return to_result(outcome.status);
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace

SIMCUDA_EXPORT CUresult cuMemGetAllocationGranularity(size_t* granularity_bytes,
                                                      const CUmemAllocationProp* properties,
                                                      CUmemAllocationGranularity_flags) {
  return driver_call<"cuMemGetAllocationGranularity">({}, [&](ThreadState& thread) {
    const CUresult checked = check_properties(thread, properties);
    if (granularity_bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (checked != CUDA_SUCCESS) return checked;
    thread.charge(CostId::DeviceGetAttribute);
    *granularity_bytes = VirtualMemory::kGranularityBytes;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_DRIVER(cuMemAddressReserve,
               (CUdeviceptr * pointer, size_t size_bytes, size_t alignment_bytes, CUdeviceptr hint,
                unsigned long long flags),
               (size_bytes, alignment_bytes, hint, flags),
               reserve(thread, pointer, size_bytes, alignment_bytes, flags))

SIMCUDA_DRIVER(cuMemAddressFree, (CUdeviceptr pointer, size_t size_bytes), (pointer, size_bytes),
               free_reservation(thread, pointer, size_bytes))

SIMCUDA_DRIVER(cuMemCreate,
               (CUmemGenericAllocationHandle * handle, size_t size_bytes,
                const CUmemAllocationProp* properties, unsigned long long flags),
               (size_bytes, flags), create(thread, handle, size_bytes, properties, flags))

SIMCUDA_DRIVER(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle),
               release_physical(thread, handle))

SIMCUDA_DRIVER(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void* address),
               (number(address)), retain(thread, handle, address))

SIMCUDA_DRIVER(cuMemMap,
               (CUdeviceptr address, size_t size_bytes, size_t offset_bytes,
                CUmemGenericAllocationHandle handle, unsigned long long flags),
               (address, size_bytes, offset_bytes, handle, flags),
               map(thread, address, size_bytes, offset_bytes, handle, flags))

SIMCUDA_DRIVER(cuMemUnmap, (CUdeviceptr address, size_t size_bytes), (address, size_bytes),
               unmap(thread, address, size_bytes))

SIMCUDA_DRIVER(cuMemSetAccess,
               (CUdeviceptr address, size_t size_bytes, const CUmemAccessDesc* descriptions,
                size_t count),
               (address, size_bytes, count),
               set_access(thread, address, size_bytes, descriptions, count))

SIMCUDA_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                       CUdeviceptr address) {
  return driver_call<"cuMemGetAccess">({address}, [&](ThreadState&) {
    SimulatedDevice* device = device_of_address(address);
    if (flags == nullptr || location == nullptr || device == nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const std::lock_guard lock(device->mutex);
    const Mapping mapping = device->core.virtual_memory().find(address);
    if (mapping.handle == 0) return CUDA_ERROR_INVALID_VALUE;
    const bool own = location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == device->index;
    const bool is_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (is_device && device_at(location->id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const Access access = own         ? mapping.access
                          : is_device ? mapping.access_of_peer(static_cast<unsigned>(location->id))
                                      : Access::None;
    *flags = access == Access::ReadWrite ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
             : access == Access::Read    ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  return driver_call<"cuMemGetAllocationPropertiesFromHandle">({handle}, [&](ThreadState&) {
    SimulatedDevice* device = device_of_handle(handle);
    if (properties == nullptr || device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(device->mutex);
    if (device->core.virtual_memory().handle_bytes(core_handle(handle)) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *properties = device->handles[core_handle(handle)].properties;
    return CUDA_SUCCESS;
  });
}

}  // namespace simcuda

// Pinned host memory and questions about pointers. In: sizes, host pointers. Out: ordinary host
// memory, remembered so that cudaPointerGetAttributes and cudaFreeHost know it.
#include "harness/simcuda/shim/host_memory.h"

#include <cstdlib>
#include <map>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

struct HostRange {
  std::uint64_t hi = 0;
  unsigned flags = 0;
  bool is_ours = false;  // from cudaMallocHost; false: registered by the program
};

struct HostMemory {
  std::mutex mutex;
  std::map<std::uint64_t, HostRange> ranges;  // by lo
};
HostMemory& host_memory() { return made_once<HostMemory>(); }

constexpr std::size_t kPinnedAlignmentBytes = 4096;

cudaError_t allocate_host(ThreadState& thread, void** pointer, std::size_t size_bytes,
                          unsigned flags) {
  constexpr unsigned kKnownFlags =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (pointer == nullptr || (flags & ~kKnownFlags) != 0) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::MallocHost, size_bytes);
  *pointer = nullptr;
  if (size_bytes == 0) {
    return cudaSuccess;
  }
  if (size_bytes > (std::size_t{1} << 46)) {
    return cudaErrorMemoryAllocation;
  }
  void* memory =
      std::aligned_alloc(kPinnedAlignmentBytes, round_up(size_bytes, kPinnedAlignmentBytes));
  if (memory == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  all.ranges[number(memory)] = {.hi = number(memory) + size_bytes, .flags = flags, .is_ours = true};
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t free_host(ThreadState& thread, void* pointer) {
  if (pointer == nullptr) {
    return cudaSuccess;
  }
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  const auto found = all.ranges.find(number(pointer));
  if (found == all.ranges.end() || !found->second.is_ours) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::FreeHost, found->second.hi - found->first);
  all.ranges.erase(found);
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t pointer_attributes(ThreadState& thread, cudaPointerAttributes* attributes,
                               const void* pointer) {
  if (attributes == nullptr) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::PointerGetAttributes);
  *attributes = {};
  void* plain = const_cast<void*>(pointer);
  if (SimulatedDevice* device = device_of_address(number(pointer)); device != nullptr) {
    const std::lock_guard lock(device->mutex);
    if (!device->live_range(number(pointer)).empty()) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = device->index;
      attributes->devicePointer = plain;
      return cudaSuccess;
    }
  }
  attributes->hostPointer = plain;
  if (host_allocation(pointer).lo != 0) {
    attributes->type = cudaMemoryTypeHost;
    attributes->device = thread.device;
    attributes->devicePointer = plain;
    return cudaSuccess;
  }
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  return cudaSuccess;
}

}  // namespace

Range host_allocation(const void* pointer) {
  HostMemory& all = host_memory();
  const std::lock_guard lock(all.mutex);
  auto found = all.ranges.upper_bound(number(pointer));
  if (found == all.ranges.begin()) {
    return {};
  }
  --found;
  return number(pointer) < found->second.hi ? Range{found->first, found->second.hi} : Range{};
}

SIMCUDA_EXPORT cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  return runtime_call<"cudaMallocHost">({size_bytes}, [&](ThreadState& thread) {
    return allocate_host(thread, pointer, size_bytes, 0);
  });
}

SIMCUDA_EXPORT cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned int flags) {
  return runtime_call<"cudaHostAlloc">({size_bytes, flags}, [&](ThreadState& thread) {
    return allocate_host(thread, pointer, size_bytes, flags);
  });
}

SIMCUDA_EXPORT cudaError_t cudaFreeHost(void* pointer) {
  return runtime_call<"cudaFreeHost">(
      {number(pointer)}, [&](ThreadState& thread) { return free_host(thread, pointer); });
}

SIMCUDA_EXPORT cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned int flags) {
  return runtime_call<"cudaHostRegister">(
      {number(pointer), size_bytes, flags}, [&](ThreadState& thread) {
        if (pointer == nullptr || size_bytes == 0) {
          return cudaErrorInvalidValue;
        }
        thread.charge(CostId::MallocHost, size_bytes);
        if (host_allocation(pointer).lo != 0) {
          return cudaErrorHostMemoryAlreadyRegistered;
        }
        HostMemory& all = host_memory();
        const std::lock_guard lock(all.mutex);
        all.ranges[number(pointer)] = {
            .hi = number(pointer) + size_bytes, .flags = flags, .is_ours = false};
        return cudaSuccess;
      });
}

SIMCUDA_EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  return runtime_call<"cudaHostUnregister">({number(pointer)}, [&](ThreadState& thread) {
    HostMemory& all = host_memory();
    const std::lock_guard lock(all.mutex);
    const auto found = all.ranges.find(number(pointer));
    if (found == all.ranges.end() || found->second.is_ours) {
      return cudaErrorHostMemoryNotRegistered;
    }
    thread.charge(CostId::FreeHost, found->second.hi - found->first);
    all.ranges.erase(found);
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer,
                                                    unsigned int flags) {
  return runtime_call<"cudaHostGetDevicePointer">({number(pointer), flags}, [&](ThreadState&) {
    if (device_pointer == nullptr || flags != 0 || host_allocation(pointer).lo == 0) {
      return cudaErrorInvalidValue;
    }
    *device_pointer = pointer;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaHostGetFlags(unsigned int* flags, void* pointer) {
  return runtime_call<"cudaHostGetFlags">({number(pointer)}, [&](ThreadState&) {
    const Range range = host_allocation(pointer);
    if (flags == nullptr || range.lo == 0) {
      return cudaErrorInvalidValue;
    }
    HostMemory& all = host_memory();
    const std::lock_guard lock(all.mutex);
    *flags = all.ranges[range.lo].flags;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                    const void* pointer) {
  return runtime_call<"cudaPointerGetAttributes">({number(pointer)}, [&](ThreadState& thread) {
    return pointer_attributes(thread, attributes, pointer);
  });
}

}  // namespace simcuda

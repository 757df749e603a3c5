// cudaMalloc and cudaFree, and questions about device memory. In: sizes and pointers. Out: what the
// core's device answers, with the modelled time of the driver's work.
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

cudaError_t allocate(ThreadState& thread, void** pointer, std::size_t size_bytes) {
  SimulatedDevice* device = current_device(thread);
  if (pointer == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (device == nullptr) {
    return cudaErrorNoDevice;
  }
  const TickScope ticks(thread);
  const std::lock_guard lock(device->mutex);
  const AllocationOutcome outcome = device->core.allocate(size_bytes);
  *pointer = reinterpret_cast<void*>(outcome.address);
  charge_work(thread, *device, outcome.work);
  if (outcome.status == Status::OutOfMemory) {
    thread.charge(CostId::MallocFailed, size_bytes);
  } else if (outcome.work.pages_taken == 0) {
    thread.charge_slab(CostId::MallocSlab);
  } else {
    thread.charge_pages(CostId::Malloc, size_bytes, device->core.used_bytes());
  }
  return to_error(outcome.status);
}

cudaError_t deallocate(ThreadState& thread, void* pointer) {
  const std::uint64_t address = number(pointer);
  if (address == 0) {
    return cudaSuccess;
  }
  SimulatedDevice* device = device_of_address(address);
  if (device == nullptr) {
    return cudaErrorInvalidValue;
  }
  if ((slow_reasons.load(std::memory_order_relaxed) & kGpuFaults) != 0 &&
      next_free_leaks(device->index)) {
    return cudaSuccess;
  }
  const TickScope ticks(thread);
  std::unique_lock lock(device->mutex);
  const Outcome outcome = wait_for_gates(
      *device, lock, [&] { return device->core.deallocate(address, thread.now_ns()); });
  thread.advance_to(outcome.work.host_wait_until_ns);
  const std::uint64_t begin_ns = thread.now_ns();
  const std::uint64_t returned_bytes = outcome.work.pages_returned * kPageBytes;
  if (returned_bytes == 0) {
    thread.charge_slab(CostId::FreeSlab);
  } else {
    thread.charge_pages(CostId::Free, returned_bytes, device->core.used_bytes());
    const std::uint64_t lo = round_down(address, kPageBytes);
    device->contents.discard({lo, lo + returned_bytes});
  }
  // The device begins to clear the pages about half-way through the call (measured).
  note_pages(thread, *device, (begin_ns + thread.now_ns()) / 2);
  charge_work(thread, *device, outcome.work);
  return to_error(outcome.status);
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  return runtime_call<"cudaMalloc">(
      {size_bytes}, [&](ThreadState& thread) { return allocate(thread, pointer, size_bytes); });
}

SIMCUDA_EXPORT cudaError_t cudaFree(void* pointer) {
  return runtime_call<"cudaFree">({number(pointer)},
                                  [&](ThreadState& thread) { return deallocate(thread, pointer); });
}

SIMCUDA_EXPORT cudaError_t cudaMallocPitch(void** pointer, size_t* pitch_bytes, size_t width_bytes,
                                           size_t height) {
  return runtime_call<"cudaMallocPitch">({width_bytes, height}, [&](ThreadState& thread) {
    if (pitch_bytes == nullptr) {
      return cudaErrorInvalidValue;
    }
    *pitch_bytes = round_up(width_bytes, kUnitBytes);
    return allocate(thread, pointer, *pitch_bytes * height);
  });
}

SIMCUDA_EXPORT cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes,
                                             unsigned int flags) {
  return runtime_call<"cudaMallocManaged">(
      {number(pointer), size_bytes, flags}, [&](ThreadState& thread) {
        return explain(thread, cudaErrorNotSupported,
                       "simcuda has no managed memory: the host cannot reach device memory");
      });
}

SIMCUDA_EXPORT cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return runtime_call<"cudaMemGetInfo">({}, [&](ThreadState& thread) {
    SimulatedDevice* device = current_device(thread);
    if (device == nullptr) {
      return cudaErrorNoDevice;
    }
    const std::lock_guard lock(device->mutex);
    if (free_bytes != nullptr) {
      *free_bytes = device->core.free_bytes();
    }
    if (total_bytes != nullptr) {
      *total_bytes = device->core.total_bytes();
    }
    thread.charge(CostId::MemGetInfo);
    return cudaSuccess;
  });
}

}  // namespace simcuda

// cudaMalloc and cudaFree, and questions about device memory. In: sizes and pointers. Out: what the
// core's device answers, with the modelled time of the driver's work.
#include "harness/simcuda/shim/memory.h"

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/host_pools.h"
#include "harness/simcuda/shim/managed_memory.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
cudaError_t allocate_memory(ThreadState& thread, void** pointer, std::size_t size_bytes) {
  SimulatedDevice* device = current_device(thread);
  if (pointer == nullptr) return cudaErrorInvalidValue;
  if (device == nullptr) return cudaErrorNoDevice;
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

cudaError_t free_memory(ThreadState& thread, void* pointer) {
  const std::uint64_t address = number(pointer);
  if (address == 0) return cudaSuccess;
  SimulatedDevice* device = device_of_address(address);
  const bool is_host = device == nullptr;
  if (is_host) device = device_of_host_block(pointer);
  if (device == nullptr) return free_managed(pointer) ? cudaSuccess : cudaErrorInvalidValue;
  if ((slow_reasons.load(std::memory_order_relaxed) & kGpuFaults) != 0 &&
      next_free_leaks(device->node_index)) {
    return cudaSuccess;
  }
  promise_before(thread, device);  // for whoever looks at the memory then (simcu_view)
  if (is_host) forget_host_block(pointer);
  const TickScope ticks(thread);
  std::unique_lock lock(device->mutex);
  const Outcome outcome = wait_for_gates(
      *device, lock, [&] { return device->core.deallocate(address, thread.now_ns()); });
  thread.advance_to(outcome.work.host_wait_until_ns);
  if (outcome.status == Status::Ok) device->shared.end(address);
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

namespace {

struct Rows {
  std::size_t width_bytes = 0;
  std::size_t count = 0;
};

cudaError_t allocate_rows(ThreadState& thread, void** pointer, std::size_t* pitch_bytes,
                          Rows rows) {
  if (pitch_bytes == nullptr) return cudaErrorInvalidValue;
  *pitch_bytes = round_up(rows.width_bytes, kUnitBytes);
  std::size_t size_bytes = 0;
  if (__builtin_mul_overflow(*pitch_bytes, rows.count, &size_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  return allocate_memory(thread, pointer, size_bytes);
}

cudaError_t memory_info(ThreadState& thread, std::size_t* free_bytes, std::size_t* total_bytes) {
  SimulatedDevice* device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  const std::lock_guard lock(device->mutex);
  if (free_bytes != nullptr) {
    *free_bytes = device->core.free_bytes();
  }
  if (total_bytes != nullptr) {
    *total_bytes = device->core.total_bytes();
  }
  thread.charge(CostId::MemGetInfo);
  return cudaSuccess;
}

}  // namespace

SIMCUDA_RUNTIME(cudaMalloc, (void** pointer, size_t size_bytes), (size_bytes),
                allocate_memory(thread, pointer, size_bytes))

SIMCUDA_PAIR(cudaFree, (void* pointer), cuMemFree, (CUdeviceptr pointer), (number(pointer)),
             free_memory(thread, as_runtime<void*>(pointer)))

SIMCUDA_EXPORT CUresult cuMemAlloc(CUdeviceptr* pointer, size_t size_bytes) {
  return driver_call<"cuMemAlloc">({size_bytes}, [&](ThreadState& thread) {
    if (size_bytes == 0) {
      if (pointer != nullptr) *pointer = 0;
      return CUDA_ERROR_INVALID_VALUE;
    }
    return as_result(allocate_memory(thread, reinterpret_cast<void**>(pointer), size_bytes));
  });
}

SIMCUDA_RUNTIME(cudaMallocPitch,
                (void** pointer, size_t* pitch_bytes, size_t width_bytes, size_t height),
                (width_bytes, height),
                allocate_rows(thread, pointer, pitch_bytes, {width_bytes, height}))

SIMCUDA_EXPORT CUresult cuMemAllocPitch(CUdeviceptr* pointer, size_t* pitch_bytes,
                                        size_t width_bytes, size_t height,
                                        unsigned int element_bytes) {
  return driver_call<"cuMemAllocPitch">(
      {width_bytes, height, element_bytes}, [&](ThreadState& thread) {
        const bool known = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
        if (!known || width_bytes == 0 || height == 0) return CUDA_ERROR_INVALID_VALUE;
        return as_result(allocate_rows(thread, reinterpret_cast<void**>(pointer), pitch_bytes,
                                       {width_bytes, height}));
      });
}

SIMCUDA_EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* pitched, cudaExtent extent) {
  return runtime_call<"cudaMalloc3D">(
      {extent.width, extent.height, extent.depth}, [&](ThreadState& thread) {
        if (pitched == nullptr) return cudaErrorInvalidValue;
        *pitched = {};
        pitched->xsize = extent.width;
        pitched->ysize = extent.height;
        return allocate_rows(thread, &pitched->ptr, &pitched->pitch,
                             {extent.width, extent.height * extent.depth});
      });
}

// The driver's is defined under the name that the header gives it (cuMemGetInfo_v2).
SIMCUDA_TWINS(cudaMemGetInfo, cuMemGetInfo, (size_t * free_bytes, size_t* total_bytes), (),
              memory_info(thread, free_bytes, total_bytes))

}  // namespace simcuda

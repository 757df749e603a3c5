// Stream-ordered allocation: cudaMallocAsync and cudaFreeAsync. In: sizes, streams, pools. Out:
// what the core's pools answer, with the modelled time of mapping and releasing chunks. The pools
// themselves are in pools.cc.
#include <cstdint>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/charge_pinning.h"
#include "harness/simcuda/shim/host_pools.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct StreamOf {
  SimulatedDevice& device;
  StreamId id = kLegacyStream;
};
// All later work of one stream comes after what another device's stream has to do now. Devices have
// separate orders, so the first works as long as the other. Blocked where a gate is in the way.
Status come_after(ThreadState& thread, const StreamOf& later, const StreamOf& earlier) {
  Finish before;
  {
    const std::lock_guard lock(earlier.device.mutex);
    before = earlier.device.core.streams().stream_finish(earlier.id, thread.now_ns());
  }
  if (before.status != Status::Ok) return before.status;
  const std::lock_guard lock(later.device.mutex);
  return work_until(thread, later.device, later.id, before.finish_ns);
}

// The stream of the memory's device that stands for the given one, which may be another device's.
struct MemoryStream {
  Status status = Status::Ok;
  StreamId id = kLegacyStream;
};
MemoryStream stream_at(ThreadState& thread, SimulatedDevice& device, const StreamRef& ref) {
  if (ref.device == &device) return {.id = ref.id};
  StreamId guest = kLegacyStream;
  {
    const std::lock_guard lock(device.mutex);
    const auto [at, is_new] = device.guest_streams.try_emplace({ref.device->index, ref.id});
    if (is_new) at->second = device.core.streams().create_stream(StreamKind::NonBlocking);
    guest = at->second;
  }
  return {.status = come_after(thread, {device, guest}, {*ref.device, ref.id}), .id = guest};
}

cudaError_t refuse_gate(ThreadState& thread) {
  return explain(
      thread, cudaErrorNotSupported,
      "simcuda: a pool's memory is used on another device's stream, behind a closed gate");
}

cudaError_t allocate_from(ThreadState& thread, void** pointer, std::size_t size_bytes,
                          SimPool* pool, const MemoryStream& stream, SimulatedDevice& device) {
  const TickScope ticks(thread);
  const std::lock_guard lock(device.mutex);
  const SimPool& from = pool != nullptr ? *pool : *device.current_pool;
  const std::uint64_t free_block_count = device.core.free_block_count();
  const AllocationOutcome outcome =
      device.core.allocate_async(size_bytes, stream.id, from.id, thread.now_ns());
  *pointer = reinterpret_cast<void*>(outcome.address);
  charge_work(thread, device, outcome.work);
  // Chunks that the pool has already cost as much where they have to move.
  if (from.is_host && outcome.work.chunks_mapped != 0) {
    charge_pinning(thread, PinCall::TakeChunk,
                   outcome.work.chunks_mapped * pinning_ns(PinCall::TakeChunk, size_bytes));
  } else if (outcome.work.chunks_mapped != 0) {
    thread.charge(CostId::MallocAsyncChunks, outcome.work.chunks_mapped, device.core.used_bytes());
  } else {
    thread.charge(CostId::MallocAsync, 0, free_block_count);
  }
  return to_error(outcome.status);
}

cudaError_t allocate_async(ThreadState& thread, void** pointer, std::size_t size_bytes,
                           SimPool* pool, cudaStream_t stream) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  if (current_device(thread) == nullptr) return cudaErrorNoDevice;
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return ref.error;
  const bool is_host = pool != nullptr && pool->is_host;
  if (ref.captured) [[unlikely]] {
    thread.charge(CostId::MallocAsync);
    const Captured captured =
        is_host ? capture_forbids(ref) : capture_allocation(ref, pointer, size_bytes);
    if (captured) return *captured;
  }
  SimulatedDevice& device = pool != nullptr ? *pool->device : *ref.device;
  const MemoryStream at = stream_at(thread, device, ref);
  if (at.status != Status::Ok) return refuse_gate(thread);
  const cudaError_t error = allocate_from(thread, pointer, size_bytes, pool, at, device);
  // The block may have a user before, whose work the stream waits for.
  if (ref.device != &device &&
      come_after(thread, {*ref.device, ref.id}, {device, at.id}) != Status::Ok) {
    return refuse_gate(thread);
  }
  if (is_host && error == cudaSuccess && *pointer != nullptr)
    note_host_block(*pool, *pointer, size_bytes);
  return error;
}

struct StreamFree {
  std::uint64_t address = 0;
  StreamId stream = 0;
};

// A block of cudaMalloc may be freed in a stream too. The driver takes it (measured); when was not
// measured, so it is taken to wait for that stream and then to free at once.
Outcome free_heap_block(ThreadState& thread, SimulatedDevice& device,
                        std::unique_lock<std::mutex>& lock, StreamFree what) {
  const Finish before = wait_for_gates(device, lock, [&] {
    return device.core.streams().stream_finish(what.stream, thread.now_ns());
  });
  if (before.status != Status::Ok) return {.status = before.status, .work = {}};
  thread.advance_to(before.finish_ns);
  Outcome outcome = wait_for_gates(
      device, lock, [&] { return device.core.deallocate(what.address, thread.now_ns()); });
  outcome.work.host_wait_until_ns = 0;  // the core waits for the whole device
  return outcome;
}

cudaError_t free_async(ThreadState& thread, void* pointer, cudaStream_t stream) {
  const std::uint64_t address = number(pointer);
  if (address == 0) return cudaSuccess;
  if (current_device(thread) == nullptr) return cudaErrorNoDevice;
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return ref.error;
  if (ref.captured) [[unlikely]] {
    thread.charge(CostId::FreeAsync);
    if (const Captured captured = capture_free(ref, address)) return *captured;
  }
  SimulatedDevice* device = device_of_address(address);
  const bool is_host = device == nullptr;
  if (is_host) device = device_of_host_block(pointer);
  if (device == nullptr) {
    thread.charge(CostId::FreeAsync);
    return cudaErrorInvalidValue;
  }
  const MemoryStream free_in = stream_at(thread, *device, ref);
  if (free_in.status != Status::Ok) return refuse_gate(thread);
  if (is_host) forget_host_block(pointer);
  const TickScope ticks(thread);
  std::unique_lock lock(device->mutex);
  if (!device->shared.opened_at(address).empty()) {
    thread.charge(CostId::FreeAsync);
    return device->shared.close(address, true);
  }
  const std::uint64_t free_block_count = device->core.free_block_count();
  const bool is_heap_block = device->core.find(address).kind == MemoryKind::Heap;
  const Outcome outcome =
      is_heap_block ? free_heap_block(thread, *device, lock, {address, free_in.id})
                    : wait_for_gates(*device, lock, [&] {
                        return device->core.deallocate_async(address, free_in.id, thread.now_ns());
                      });
  if (outcome.status == Status::Ok) device->shared.end(address);
  charge_work(thread, *device, outcome.work);
  thread.charge(CostId::FreeAsync, 0, free_block_count);
  return to_error(outcome.status);
}

cudaError_t allocate_from_pool(ThreadState& thread, void** pointer, std::size_t size_bytes,
                               cudaMemPool_t pool, cudaStream_t stream) {
  SimPool* object = resolve_pool(pool);
  return object == nullptr ? cudaErrorInvalidValue
                           : allocate_async(thread, pointer, size_bytes, object, stream);
}

}  // namespace

SIMCUDA_PAIR(cudaMallocAsync, (void** pointer, size_t size_bytes, cudaStream_t stream),
             cuMemAllocAsync, (CUdeviceptr * pointer, size_t size_bytes, CUstream stream),
             (size_bytes, number(stream)),
             allocate_async(thread, as_runtime<void**>(pointer), size_bytes, nullptr, stream))
SIMCUDA_PAIR(cudaMallocFromPoolAsync,
             (void** pointer, size_t size_bytes, cudaMemPool_t pool, cudaStream_t stream),
             cuMemAllocFromPoolAsync,
             (CUdeviceptr * pointer, size_t size_bytes, CUmemoryPool pool, CUstream stream),
             (size_bytes, number(pool), number(stream)),
             allocate_from_pool(thread, as_runtime<void**>(pointer), size_bytes, pool, stream))
SIMCUDA_PAIR(cudaFreeAsync, (void* pointer, cudaStream_t stream), cuMemFreeAsync,
             (CUdeviceptr pointer, CUstream stream), (number(pointer), number(stream)),
             free_async(thread, as_runtime<void*>(pointer), stream))
}  // namespace simcuda

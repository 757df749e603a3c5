// Copies and fills. Bytes move at once, on the calling thread, in the simulator's view of device
// memory; the time they take on the device is put on the stream. So data is right for programs that
// order their work by streams and the host, and work behind a closed gate has its data effect
// early.
#include "harness/simcuda/shim/memory_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/link_time.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// Where a copy or a fill is captured, the bytes are looked for at each launch: what a graph
// allocates is there only then.
cudaError_t missing_memory(ThreadState& thread) {
  return explain(thread, cudaErrorIllegalAddress,
                 "a node of the graph uses memory that is not allocated at its launch");
}

// How the driver's structures say it.
CUDA_MEMCPY3D told_copy(void* to, const void* from, const CopyShape& shape, cudaMemcpyKind kind) {
  const auto type_of = [&](const void* pointer) {
    return kind == cudaMemcpyDefault                       ? CU_MEMORYTYPE_UNIFIED
           : device_of_address(number(pointer)) == nullptr ? CU_MEMORYTYPE_HOST
                                                           : CU_MEMORYTYPE_DEVICE;
  };
  CUDA_MEMCPY3D told{};
  told.srcMemoryType = type_of(from);
  told.dstMemoryType = type_of(to);
  if (told.srcMemoryType == CU_MEMORYTYPE_HOST) {
    told.srcHost = from;
  } else {
    told.srcDevice = number(from);
  }
  if (told.dstMemoryType == CU_MEMORYTYPE_HOST) {
    told.dstHost = to;
  } else {
    told.dstDevice = number(to);
  }
  told.srcPitch = shape.from_pitch_bytes;
  told.dstPitch = shape.to_pitch_bytes;
  told.srcHeight = shape.row_count;
  told.dstHeight = shape.row_count;
  told.WidthInBytes = shape.width_bytes;
  told.Height = shape.row_count;
  told.Depth = 1;
  return told;
}

cudaMemsetParams told_fill(void* pointer, FillValue value, const CopyShape& shape) {
  return {.dst = pointer,
          .pitch = shape.to_pitch_bytes,
          .value = value.value,
          .elementSize = static_cast<unsigned>(value.element_bytes),
          .width = shape.width_bytes / value.element_bytes,
          .height = shape.row_count};
}

Captured capture_made(const StreamRef& ref, MadeWork made) {
  return made.error != cudaSuccess ? Captured(made.error) : capture_work(ref, std::move(made.work));
}

}  // namespace

MadeWork copy_work(void* to_pointer, const void* from_pointer, CopyShape shape,
                   cudaMemcpyKind kind) {
  // What is no device memory is taken for the host's, so the direction has to say so.
  const Bytes target{.device = device_of_address(number(to_pointer)),
                     .is_mapped = host_allocation(to_pointer).lo != 0};
  const Bytes source{.device = device_of_address(number(from_pointer)),
                     .is_mapped = host_allocation(from_pointer).lo != 0};
  if (!direction_fits(kind, target, source)) return {cudaErrorInvalidValue};
  const std::size_t to_bytes = span_bytes(shape.to_pitch_bytes, shape);
  const std::size_t from_bytes = span_bytes(shape.from_pitch_bytes, shape);
  if (!may_be_captured(to_pointer, to_bytes) || !may_be_captured(from_pointer, from_bytes)) {
    return {cudaErrorInvalidValue};
  }
  const auto run = [=]() -> NodeRun {
    const Bytes to = locate(to_pointer, to_bytes);
    const Bytes from = locate(from_pointer, from_bytes);
    if (to.data == nullptr || from.data == nullptr) return {missing_memory(this_thread())};
    move_bytes(to, from, shape);
    return {.duration_ns = copy_ns(to, from, shape.width_bytes * shape.row_count)};
  };
  return {.work = {.kind = NodeKind::Work,
                   .type = cudaGraphNodeTypeMemcpy,
                   .run = run,
                   .parameters = told_copy(to_pointer, from_pointer, shape, kind)}};
}

cudaError_t copy_memory(ThreadState& thread, void* to_pointer, const void* from_pointer,
                        CopyShape shape, cudaMemcpyKind kind, cudaStream_t stream, Wait wait) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  if (shape.width_bytes == 0 || shape.row_count == 0) return cudaSuccess;
  if (to_pointer == nullptr || from_pointer == nullptr ||
      shape.to_pitch_bytes < shape.width_bytes || shape.from_pitch_bytes < shape.width_bytes) {
    return cudaErrorInvalidValue;
  }
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.captured) [[unlikely]] {
    thread.charge(CostId::MemsetAsync);
    const Captured captured =
        wait == Wait::ForCopy || ref.stream == nullptr
            ? capture_forbids(ref)
            : capture_made(ref, copy_work(to_pointer, from_pointer, shape, kind));
    if (captured) return *captured;
  }
  const Bytes to = locate(to_pointer, span_bytes(shape.to_pitch_bytes, shape));
  const Bytes from = locate(from_pointer, span_bytes(shape.from_pitch_bytes, shape));
  if (to.data == nullptr || from.data == nullptr || !direction_fits(kind, to, from)) {
    return cudaErrorInvalidValue;
  }
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  move_bytes(to, from, shape);
  const std::uint64_t size_bytes = shape.width_bytes * shape.row_count;
  const CostId cost = copy_cost(to, from);
  std::unique_lock lock(ref.device->mutex);
  StreamOrder& order = ref.device->core.streams();
  if (wait == Wait::No || cost == CostId::MemcpyOnDevice) {
    thread.charge(CostId::MemsetAsync);
    return to_error(order.copy(ref.id, copy_ns(to, from, size_bytes), thread.now_ns()).status);
  }
  const Finish before = wait_for_gates(
      *ref.device, lock, [&] { return order.stream_finish(ref.id, thread.now_ns()); });
  thread.advance_to(before.status == Status::Ok ? before.finish_ns : 0);
  promise_after(thread, order_key(ref));
  if (order.followed() != nullptr && before.status == Status::Ok) {
    order.followed()->host_saw_stream(ref.id);
  }
  thread.charge(cost, size_bytes);
  return to_error(before.status);
}

MadeWork fill_work(void* pointer, FillValue value, CopyShape shape) {
  const std::size_t size_bytes = span_bytes(shape.to_pitch_bytes, shape);
  const bool is_host = device_of_address(number(pointer)) == nullptr;
  if (!may_be_captured(pointer, size_bytes) || (is_host && host_allocation(pointer).lo == 0)) {
    return {cudaErrorInvalidValue};
  }
  const auto run = [=]() -> NodeRun {
    const Bytes bytes = locate(pointer, size_bytes);
    if (bytes.data == nullptr) return {missing_memory(this_thread())};
    set_bytes(bytes, value, shape);
    return {.duration_ns =
                median_cost(CostId::MemsetOnDevice, shape.width_bytes * shape.row_count)};
  };
  return {.work = {.kind = NodeKind::Work,
                   .type = cudaGraphNodeTypeMemset,
                   .run = run,
                   .parameters = told_fill(pointer, value, shape)}};
}

cudaError_t fill_memory(ThreadState& thread, void* pointer, FillValue value, CopyShape shape,
                        cudaStream_t stream) {
  if (shape.width_bytes == 0 || shape.row_count == 0) return cudaSuccess;
  if (shape.to_pitch_bytes < shape.width_bytes ||
      (number(pointer) | shape.to_pitch_bytes) % value.element_bytes != 0) {
    return cudaErrorInvalidValue;
  }
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.captured) [[unlikely]] {
    thread.charge(CostId::MemsetAsync);
    const Captured captured = capture_made(ref, fill_work(pointer, value, shape));
    if (captured) return *captured;
  }
  const Bytes bytes = locate(pointer, span_bytes(shape.to_pitch_bytes, shape));
  const bool pinned = bytes.device == nullptr && host_allocation(pointer).lo != 0;
  if (bytes.data == nullptr || (bytes.device == nullptr && !pinned)) return cudaErrorInvalidValue;
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  set_bytes(bytes, value, shape);
  thread.charge(CostId::MemsetAsync);
  const std::lock_guard lock(ref.device->mutex);
  const std::uint64_t duration_ns =
      median_cost(CostId::MemsetOnDevice, shape.width_bytes * shape.row_count);
  return to_error(ref.device->core.streams().copy(ref.id, duration_ns, thread.now_ns()).status);
}

namespace {

// The devices that a peer copy names have to be those of its pointers.
cudaError_t check_peers(const void* to, int to_device, const void* from, int from_device,
                        std::size_t size_bytes) {
  if (device_at(to_device) == nullptr || device_at(from_device) == nullptr) {
    return cudaErrorInvalidDevice;
  }
  const bool fits = device_of_address(number(to)) == device_at(to_device) &&
                    device_of_address(number(from)) == device_at(from_device);
  return fits || size_bytes == 0 ? cudaSuccess : cudaErrorInvalidValue;
}

// Comes after all work of both devices; later work of both comes after it, but that of streams
// which do not follow the default stream.
cudaError_t copy_alone(ThreadState& thread, void* to, int to_device, const void* from,
                       int from_device, std::size_t size_bytes) {
  if (size_bytes == 0) return cudaSuccess;
  for (const int index : {to_device, from_device}) {
    SimulatedDevice& device = *device_at(index);
    const StreamRef legacy{.device = &device, .captured = device.blocking_capture_count != 0};
    if (const Captured captured = capture_forbids(legacy)) return *captured;
  }
  std::uint64_t begin_ns = thread.now_ns();
  for (const int index : {to_device, from_device}) {
    SimulatedDevice& device = *device_at(index);
    std::unique_lock lock(device.mutex);
    const Finish before = wait_for_gates(
        device, lock, [&] { return device.core.streams().device_finish(thread.now_ns()); });
    if (before.status != Status::Ok) return to_error(before.status);
    begin_ns = std::max(begin_ns, before.finish_ns);
  }
  const Bytes target = locate(to, size_bytes);
  const Bytes source = locate(from, size_bytes);
  if (target.data == nullptr || source.data == nullptr) return cudaErrorInvalidValue;
  std::memmove(target.data, source.data, size_bytes);
  thread.charge(CostId::MemsetAsync);
  const std::uint64_t end_ns =
      begin_ns + (target.device == source.device ? median_cost(CostId::MemcpyOnDevice, size_bytes)
                                                 : allocmark::link_ns(size_bytes));
  for (SimulatedDevice* device : {target.device, source.device}) {
    const std::lock_guard lock(device->mutex);
    StreamOrder& order = device->core.streams();
    const std::uint64_t free_ns =
        std::max(order.device_finish(thread.now_ns()).finish_ns, thread.now_ns());
    const Outcome outcome =
        order.copy(kLegacyStream, end_ns > free_ns ? end_ns - free_ns : 0, thread.now_ns());
    if (outcome.status != Status::Ok) return to_error(outcome.status);
    if (target.device == source.device) break;
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t copy_between(ThreadState& thread, void* to, int to_device, const void* from,
                         int from_device, std::size_t size_bytes, cudaStream_t stream, Wait wait) {
  const cudaError_t checked = check_peers(to, to_device, from, from_device, size_bytes);
  if (checked != cudaSuccess) return checked;
  return wait == Wait::ForCopy ? copy_alone(thread, to, to_device, from, from_device, size_bytes)
                               : copy_memory(thread, to, from, line(size_bytes),
                                             cudaMemcpyDeviceToDevice, stream, wait);
}

SIMCUDA_MOVES(RUNTIME, cuda, Memcpy,
              (void* to, const void* from, size_t size_bytes, cudaMemcpyKind kind),
              (number(to), number(from), size_bytes),
              copy_memory(thread, to, from, line(size_bytes), kind, stream, wait))
SIMCUDA_MOVES(RUNTIME, cuda, MemcpyPeer,
              (void* to, int to_device, const void* from, int from_device, size_t size_bytes),
              (number(to), number(from), size_bytes),
              copy_between(thread, to, to_device, from, from_device, size_bytes, stream, wait))
SIMCUDA_MOVES(RUNTIME, cuda, Memcpy2D,
              (void* to, size_t to_pitch_bytes, const void* from, size_t from_pitch_bytes,
               size_t width_bytes, size_t height, cudaMemcpyKind kind),
              (number(to), number(from), width_bytes, height),
              copy_memory(thread, to, from, {to_pitch_bytes, from_pitch_bytes, width_bytes, height},
                          kind, stream, wait))
SIMCUDA_MOVES(RUNTIME, cuda, Memset, (void* pointer, int value, size_t size_bytes),
              (number(pointer), size_bytes),
              fill_memory(thread, pointer, byte_value(value), line(size_bytes), stream))
SIMCUDA_MOVES(RUNTIME, cuda, Memset2D,
              (void* pointer, size_t pitch_bytes, int value, size_t width_bytes, size_t height),
              (number(pointer), width_bytes, height),
              fill_memory(thread, pointer, byte_value(value),
                          {pitch_bytes, pitch_bytes, width_bytes, height}, stream))

}  // namespace simcuda

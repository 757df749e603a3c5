// Events. In: handles. Out: what the core's stream order answers of what was recorded where.
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/synchronize.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t record(ThreadState& thread, cudaEvent_t event, cudaStream_t stream,
                   bool is_external = false) {
  SimEvent* object = resolve_event(event);
  const StreamRef ref = resolve_stream(thread, stream);
  if (object == nullptr || ref.device == nullptr || object->device != ref.device) {
    return cudaErrorInvalidResourceHandle;
  }
  thread.charge(CostId::EventRecord);
  promise_before(thread, object);
  if (ref.captured) [[unlikely]] {
    if (const Captured captured = capture_record(ref, *object, is_external)) return *captured;
  }
  if (is_external) return cudaErrorInvalidValue;
  object->capture_id.store(0, std::memory_order_relaxed);
  const std::lock_guard lock(ref.device->mutex);
  return to_error(ref.device->core.streams().record(object->id, ref.id, thread.now_ns()));
}

cudaError_t wait_event(ThreadState& thread, cudaStream_t stream, cudaEvent_t event,
                       unsigned flags) {
  SimEvent* object = resolve_event(event);
  const StreamRef ref = resolve_stream(thread, stream);
  if (object == nullptr || ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if ((flags & ~static_cast<unsigned>(cudaEventWaitExternal)) != 0) return cudaErrorInvalidValue;
  thread.charge(CostId::StreamWaitEvent);
  promise_after(thread, object);
  const bool is_external = (flags & cudaEventWaitExternal) != 0;
  if (ref.captured || object->capture_id != 0 || is_external) [[unlikely]] {
    if (const Captured captured = capture_wait(ref, *object, is_external)) return *captured;
    if (is_external) return cudaErrorInvalidValue;
  }
  if (object->device == ref.device) {
    const std::lock_guard lock(ref.device->mutex);
    return to_error(ref.device->core.streams().wait(ref.id, object->id, thread.now_ns()));
  }
  // Devices have separate orders: the wait becomes a piece of work that ends when the event does.
  Finish finish;
  {
    const std::lock_guard lock(object->device->mutex);
    finish = object->device->core.streams().event_finish(object->id);
  }
  if (finish.status == Status::Blocked) {
    return explain(
        thread, cudaErrorNotSupported,
        "simcuda: a stream waits for another device's event that is behind a closed gate");
  }
  const std::lock_guard lock(ref.device->mutex);
  return to_error(finish.status == Status::Ok
                      ? work_until(thread, *ref.device, ref.id, finish.finish_ns)
                      : finish.status);
}

cudaError_t create_event(ThreadState& thread, cudaEvent_t* result, unsigned flags) {
  constexpr unsigned kKnownFlags =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  SimulatedDevice* device = current_device(thread);
  if (result == nullptr || (flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
  if (device == nullptr) return cudaErrorNoDevice;
  if ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::EventCreate);
  const std::lock_guard lock(device->mutex);
  SimEvent* event = device->new_event(device->core.streams().create_event());
  if (event == nullptr) return cudaErrorMemoryAllocation;
  event->flags = flags;
  *result = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

cudaError_t destroy_event(ThreadState& thread, cudaEvent_t event) {
  SimEvent* object = resolve_event(event);
  if (object == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::EventDestroy);
  const std::lock_guard lock(object->device->mutex);
  const bool known = object->device->core.streams().destroy_event(object->id);
  // Two threads may destroy it at once: one of them finds it gone.
  if (known) object->device->recycle(object);
  return known ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t query_event(ThreadState& thread, cudaEvent_t event) {
  SimEvent* object = resolve_event(event);
  if (object == nullptr) return cudaErrorInvalidResourceHandle;
  if (object->capture_id != 0) [[unlikely]] {
    return ask_captured_event(*object);
  }
  const std::lock_guard lock(object->device->mutex);
  const Status status = object->device->core.streams().query_event(object->id, thread.now_ns());
  thread.charge(status == Status::NotReady ? CostId::EventQueryNotReady : CostId::EventQuery);
  if (status == Status::Ok) promise_after(thread, object);
  return to_error(status);
}

cudaError_t elapsed(ThreadState& thread, float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  SimEvent* first = resolve_event(begin);
  SimEvent* last = resolve_event(end);
  if (milliseconds == nullptr) return cudaErrorInvalidValue;
  if (first == nullptr || last == nullptr || first->device != last->device ||
      ((first->flags | last->flags) & cudaEventDisableTiming) != 0) {
    return cudaErrorInvalidResourceHandle;
  }
  for (SimEvent* const event : {first, last}) {
    if (event->capture_id != 0) return ask_captured_event(*event);
  }
  thread.charge(CostId::EventQuery);
  const std::lock_guard lock(first->device->mutex);
  StreamOrder& order = first->device->core.streams();
  if (!order.event_recorded(first->id) || !order.event_recorded(last->id)) {
    return cudaErrorInvalidResourceHandle;
  }
  for (const SimEvent* event : {first, last}) {
    if (order.query_event(event->id, thread.now_ns()) == Status::NotReady) return cudaErrorNotReady;
  }
  const double delta_ns = static_cast<double>(order.event_finish(last->id).finish_ns) -
                          static_cast<double>(order.event_finish(first->id).finish_ns);
  *milliseconds = static_cast<float>(delta_ns * 1e-6);
  return cudaSuccess;
}

cudaError_t record_with_flags(ThreadState& thread, cudaEvent_t event, cudaStream_t stream,
                              unsigned flags) {
  return flags > cudaEventRecordExternal
             ? cudaErrorInvalidValue
             : record(thread, event, stream, flags == cudaEventRecordExternal);
}

cudaError_t synchronize_with(ThreadState& thread, cudaEvent_t event) {
  SimEvent* object = resolve_event(event);
  if (object == nullptr) return cudaErrorInvalidResourceHandle;
  if (object->capture_id != 0) [[unlikely]] {
    return ask_captured_event(*object);
  }
  promise_after(thread, object);
  return synchronize(thread, *object->device, CostId::EventSynchronize, [&] {
    return object->device->core.synchronize_event(object->id, thread.now_ns());
  });
}

}  // namespace

SIMCUDA_RUNTIME(cudaEventCreate, (cudaEvent_t * event), (), create_event(thread, event, 0))

SIMCUDA_TWINS(cudaStreamWaitEvent, cuStreamWaitEvent,
              (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
              (number(stream), number(event), flags), wait_event(thread, stream, event, flags))
SIMCUDA_TWINS(cudaEventCreateWithFlags, cuEventCreate, (cudaEvent_t * event, unsigned int flags),
              (flags), create_event(thread, event, flags))
SIMCUDA_TWINS(cudaEventDestroy, cuEventDestroy, (cudaEvent_t event), (number(event)),
              destroy_event(thread, event))
SIMCUDA_TWINS(cudaEventRecord, cuEventRecord, (cudaEvent_t event, cudaStream_t stream),
              (number(event), number(stream)), record(thread, event, stream))
SIMCUDA_TWINS(cudaEventRecordWithFlags, cuEventRecordWithFlags,
              (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
              (number(event), number(stream), flags),
              record_with_flags(thread, event, stream, flags))
SIMCUDA_TWINS(cudaEventQuery, cuEventQuery, (cudaEvent_t event), (number(event)),
              query_event(thread, event))
SIMCUDA_TWINS(cudaEventSynchronize, cuEventSynchronize, (cudaEvent_t event), (number(event)),
              synchronize_with(thread, event))
// The driver's is defined under the name that the header gives it (cuEventElapsedTime_v2).
SIMCUDA_TWINS(cudaEventElapsedTime, cuEventElapsedTime,
              (float* milliseconds, cudaEvent_t begin, cudaEvent_t end),
              (number(begin), number(end)), elapsed(thread, milliseconds, begin, end))

}  // namespace simcuda

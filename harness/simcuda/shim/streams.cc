// Streams and events. In: handles. Out: what the core's stream order answers; synchronisation lets
// the calling thread's clock reach the end of the work and lets pools release what has become free.
#include <algorithm>
#include <string>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

constexpr int kPriorityHighest = -5;  // measured: cudaDeviceGetStreamPriorityRange says 0 and -5

cudaError_t create_stream(ThreadState& thread, cudaStream_t* result, unsigned flags, int priority) {
  SimulatedDevice* device = current_device(thread);
  if (result == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return cudaErrorInvalidValue;
  }
  if (device == nullptr) {
    return cudaErrorNoDevice;
  }
  const std::lock_guard lock(device->mutex);
  const StreamKind kind =
      flags == cudaStreamNonBlocking ? StreamKind::NonBlocking : StreamKind::Blocking;
  const StreamOutcome outcome = device->core.create_stream(kind, thread.now_ns());
  charge_work(thread, *device, outcome.work);
  thread.charge(CostId::StreamCreate);
  if (outcome.status != Status::Ok) {
    return to_error(outcome.status);
  }
  SimStream* stream = device->new_stream();
  stream->id = outcome.stream;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kPriorityHighest, 0);
  *result = reinterpret_cast<cudaStream_t>(stream);
  return cudaSuccess;
}

cudaError_t destroy_stream(ThreadState& thread, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr || ref.stream == nullptr || stream == cudaStreamPerThread) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::lock_guard lock(ref.device->mutex);
  const Outcome outcome = ref.device->core.destroy_stream(ref.id, thread.now_ns());
  charge_work(thread, *ref.device, outcome.work);
  thread.charge(CostId::StreamDestroy);
  if (outcome.status == Status::Ok) {
    ref.device->recycle(const_cast<SimStream*>(ref.stream));
  }
  return to_error(outcome.status);
}

// Shared by the three synchronising calls: `operation` asks the core, repeatedly where a gate is
// closed.
template <class Operation>
cudaError_t synchronize(ThreadState& thread, SimulatedDevice& device, CostId cost,
                        Operation operation) {
  const TickScope ticks(thread);
  std::unique_lock lock(device.mutex);
  const Outcome outcome = wait_for_gates(device, lock, operation);
  charge_work(thread, device, outcome.work);
  thread.charge(cost);
  lock.unlock();
  if (outcome.status == Status::Blocked) {
    return explain(
        thread, cudaErrorLaunchTimeout,
        "work waits for a gate that nobody opened in " + std::to_string(kGateWaitSeconds) + " s");
  }
  run_ready_host_functions(device, thread);
  return to_error(outcome.status);
}

cudaError_t record(ThreadState& thread, cudaEvent_t event, cudaStream_t stream) {
  SimEvent* object = resolve_event(event);
  const StreamRef ref = resolve_stream(thread, stream);
  if (object == nullptr || ref.device == nullptr || object->device != ref.device) {
    return cudaErrorInvalidResourceHandle;
  }
  thread.charge(CostId::EventRecord);
  const std::lock_guard lock(ref.device->mutex);
  return to_error(ref.device->core.streams().record(object->id, ref.id, thread.now_ns()));
}

cudaError_t wait_event(ThreadState& thread, cudaStream_t stream, cudaEvent_t event,
                       unsigned flags) {
  SimEvent* object = resolve_event(event);
  const StreamRef ref = resolve_stream(thread, stream);
  if (object == nullptr || ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if ((flags & ~static_cast<unsigned>(cudaEventWaitExternal)) != 0) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::StreamWaitEvent);
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
  if (finish.finish_ns > thread.now_ns()) {
    return to_error(ref.device->core.streams()
                        .copy(ref.id, finish.finish_ns - thread.now_ns(), thread.now_ns())
                        .status);
  }
  return to_error(finish.status);
}

cudaError_t create_event(ThreadState& thread, cudaEvent_t* result, unsigned flags) {
  constexpr unsigned kKnownFlags =
      cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  SimulatedDevice* device = current_device(thread);
  if (result == nullptr || (flags & ~kKnownFlags) != 0) {
    return cudaErrorInvalidValue;
  }
  if (device == nullptr) {
    return cudaErrorNoDevice;
  }
  if ((flags & cudaEventInterprocess) != 0) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: events cannot be shared between processes");
  }
  thread.charge(CostId::EventCreate);
  const std::lock_guard lock(device->mutex);
  SimEvent* event = device->new_event();
  event->id = device->core.streams().create_event();
  event->flags = flags;
  *result = reinterpret_cast<cudaEvent_t>(event);
  return cudaSuccess;
}

cudaError_t destroy_event(ThreadState& thread, cudaEvent_t event) {
  SimEvent* object = resolve_event(event);
  if (object == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  thread.charge(CostId::EventDestroy);
  const std::lock_guard lock(object->device->mutex);
  const bool known = object->device->core.streams().destroy_event(object->id);
  object->device->recycle(object);
  return known ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t query_event(ThreadState& thread, cudaEvent_t event) {
  SimEvent* object = resolve_event(event);
  if (object == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::lock_guard lock(object->device->mutex);
  const Status status = object->device->core.streams().query_event(object->id, thread.now_ns());
  thread.charge(status == Status::NotReady ? CostId::EventQueryNotReady : CostId::EventQuery);
  return to_error(status);
}

cudaError_t query_stream(ThreadState& thread, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::lock_guard lock(ref.device->mutex);
  const Status status = ref.device->core.streams().query_stream(ref.id, thread.now_ns());
  thread.charge(status == Status::NotReady ? CostId::StreamQueryNotReady : CostId::StreamQuery);
  return to_error(status);
}

cudaError_t elapsed(ThreadState& thread, float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  SimEvent* first = resolve_event(begin);
  SimEvent* last = resolve_event(end);
  if (milliseconds == nullptr) {
    return cudaErrorInvalidValue;
  }
  if (first == nullptr || last == nullptr || first->device != last->device ||
      ((first->flags | last->flags) & cudaEventDisableTiming) != 0) {
    return cudaErrorInvalidResourceHandle;
  }
  thread.charge(CostId::EventQuery);
  const std::lock_guard lock(first->device->mutex);
  StreamOrder& order = first->device->core.streams();
  if (!order.event_recorded(first->id) || !order.event_recorded(last->id)) {
    return cudaErrorInvalidResourceHandle;
  }
  for (const SimEvent* event : {first, last}) {
    if (order.query_event(event->id, thread.now_ns()) == Status::NotReady) {
      return cudaErrorNotReady;
    }
  }
  const double delta_ns = static_cast<double>(order.event_finish(last->id).finish_ns) -
                          static_cast<double>(order.event_finish(first->id).finish_ns);
  *milliseconds = static_cast<float>(delta_ns * 1e-6);
  return cudaSuccess;
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return runtime_call<"cudaStreamCreate">(
      {}, [&](ThreadState& thread) { return create_stream(thread, stream, 0, 0); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return runtime_call<"cudaStreamCreateWithFlags">(
      {flags}, [&](ThreadState& thread) { return create_stream(thread, stream, flags, 0); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags,
                                                        int priority) {
  return runtime_call<"cudaStreamCreateWithPriority">(
      {flags, static_cast<std::uint64_t>(priority)},
      [&](ThreadState& thread) { return create_stream(thread, stream, flags, priority); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return runtime_call<"cudaStreamDestroy">(
      {number(stream)}, [&](ThreadState& thread) { return destroy_stream(thread, stream); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return runtime_call<"cudaStreamQuery">(
      {number(stream)}, [&](ThreadState& thread) { return query_stream(thread, stream); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return runtime_call<"cudaStreamSynchronize">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    return synchronize(thread, *ref.device, CostId::StreamSynchronize, [&] {
      return ref.device->core.synchronize_stream(ref.id, thread.now_ns());
    });
  });
}

SIMCUDA_EXPORT cudaError_t cudaDeviceSynchronize() {
  return runtime_call<"cudaDeviceSynchronize">({}, [&](ThreadState& thread) {
    SimulatedDevice* device = current_device(thread);
    if (device == nullptr) {
      return cudaErrorNoDevice;
    }
    return synchronize(thread, *device, CostId::DeviceSynchronize,
                       [&] { return device->core.synchronize_device(thread.now_ns()); });
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                               unsigned int flags) {
  return runtime_call<"cudaStreamWaitEvent">(
      {number(stream), number(event), flags},
      [&](ThreadState& thread) { return wait_event(thread, stream, event, flags); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return runtime_call<"cudaStreamGetFlags">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || flags == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *flags = ref.stream == nullptr ? 0 : ref.stream->flags;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return runtime_call<"cudaStreamGetPriority">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || priority == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *priority = ref.stream == nullptr ? 0 : ref.stream->priority;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* index) {
  return runtime_call<"cudaStreamGetDevice">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || index == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *index = ref.device->index;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return runtime_call<"cudaStreamGetId">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || id == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *id = ref.stream == nullptr ? 1 : ref.stream->number;
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                 cudaStreamCaptureStatus* status) {
  return runtime_call<"cudaStreamIsCapturing">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || status == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    thread.charge(CostId::GetDevice);
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 13000
SIMCUDA_EXPORT cudaError_t cudaStreamGetCaptureInfo(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* /*id*/,
    cudaGraph_t* /*graph*/, const cudaGraphNode_t** /*dependencies*/,
    const cudaGraphEdgeData** /*edges*/, size_t* /*dependency_count*/) {
  return runtime_call<"cudaStreamGetCaptureInfo">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || status == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    // Nothing else is written where nothing is captured.
    thread.charge(CostId::GetDevice);
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
  });
}
#endif

SIMCUDA_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return runtime_call<"cudaThreadExchangeStreamCaptureMode">({}, [&](ThreadState& thread) {
    static thread_local cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    if (mode == nullptr) {
      return cudaErrorInvalidValue;
    }
    thread.charge(CostId::GetDevice);
    std::swap(*mode, current);
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return runtime_call<"cudaEventCreate">(
      {}, [&](ThreadState& thread) { return create_event(thread, event, 0); });
}

SIMCUDA_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return runtime_call<"cudaEventCreateWithFlags">(
      {flags}, [&](ThreadState& thread) { return create_event(thread, event, flags); });
}

SIMCUDA_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return runtime_call<"cudaEventDestroy">(
      {number(event)}, [&](ThreadState& thread) { return destroy_event(thread, event); });
}

SIMCUDA_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return runtime_call<"cudaEventRecord">({number(event), number(stream)}, [&](ThreadState& thread) {
    return record(thread, event, stream);
  });
}

SIMCUDA_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                    unsigned int flags) {
  return runtime_call<"cudaEventRecordWithFlags">(
      {number(event), number(stream), flags}, [&](ThreadState& thread) {
        return flags == 0 ? record(thread, event, stream) : cudaErrorInvalidValue;
      });
}

SIMCUDA_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return runtime_call<"cudaEventQuery">(
      {number(event)}, [&](ThreadState& thread) { return query_event(thread, event); });
}

SIMCUDA_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return runtime_call<"cudaEventSynchronize">({number(event)}, [&](ThreadState& thread) {
    SimEvent* object = resolve_event(event);
    if (object == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    return synchronize(thread, *object->device, CostId::EventSynchronize, [&] {
      return object->device->core.synchronize_event(object->id, thread.now_ns());
    });
  });
}

SIMCUDA_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                                cudaEvent_t end) {
  return runtime_call<"cudaEventElapsedTime">(
      {number(begin), number(end)},
      [&](ThreadState& thread) { return elapsed(thread, milliseconds, begin, end); });
}

SIMCUDA_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  return runtime_call<"cudaDeviceGetStreamPriorityRange">({}, [&](ThreadState& thread) {
    thread.charge(CostId::DeviceGetAttribute);
    if (lowest != nullptr) {
      *lowest = 0;
    }
    if (highest != nullptr) {
      *highest = kPriorityHighest;
    }
    return cudaSuccess;
  });
}

}  // namespace simcuda

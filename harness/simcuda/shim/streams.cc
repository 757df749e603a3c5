// Streams. In: handles. Out: what the core's stream order answers. Events are in events.cc.
#include <algorithm>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/synchronize.h"

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
  SimStream* stream = device->new_stream(outcome.stream);
  if (stream == nullptr) return cudaErrorMemoryAllocation;
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
  if (ref.captured) [[unlikely]] {
    leave_capture(*ref.stream);
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

cudaError_t query_stream(ThreadState& thread, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (ref.captured) [[unlikely]] {
    if (const Captured captured = capture_forbids(ref)) return *captured;
  }
  const std::lock_guard lock(ref.device->mutex);
  const Status status = ref.device->core.streams().query_stream(ref.id, thread.now_ns());
  thread.charge(status == Status::NotReady ? CostId::StreamQueryNotReady : CostId::StreamQuery);
  return to_error(status);
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
    if (ref.captured) [[unlikely]] {
      if (const Captured captured = capture_forbids(ref)) return *captured;
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

SIMCUDA_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  return runtime_call<"cudaStreamGetFlags">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || flags == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *flags = ref.stream == nullptr ? 0 : ref.stream->flags.load();
    return cudaSuccess;
  });
}

SIMCUDA_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return runtime_call<"cudaStreamGetPriority">({number(stream)}, [&](ThreadState& thread) {
    const StreamRef ref = resolve_stream(thread, stream);
    if (ref.device == nullptr || priority == nullptr) {
      return ref.device == nullptr ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue;
    }
    *priority = ref.stream == nullptr ? 0 : ref.stream->priority.load();
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
    *id = ref.stream == nullptr ? 1 : ref.stream->number.load();
    return cudaSuccess;
  });
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

// Streams. In: handles. Out: what the core's stream order answers. Events are in events.cc.
#include <algorithm>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/contexts.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/synchronize.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

constexpr int kPriorityHighest = -5;  // measured: cudaDeviceGetStreamPriorityRange says 0 and -5

cudaError_t create_stream(ThreadState& thread, cudaStream_t* result, unsigned flags, int priority) {
  SimulatedDevice* device = current_device(thread);
  if (result == nullptr || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return cudaErrorInvalidValue;
  }
  if (device == nullptr) return cudaErrorNoDevice;
  const std::lock_guard lock(device->mutex);
  const StreamKind kind =
      flags == cudaStreamNonBlocking ? StreamKind::NonBlocking : StreamKind::Blocking;
  const StreamOutcome outcome = device->core.create_stream(kind, thread.now_ns());
  charge_work(thread, *device, outcome.work);
  thread.charge(CostId::StreamCreate);
  if (outcome.status != Status::Ok) return to_error(outcome.status);
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
  if (ref.device == nullptr) return ref.error;
  if (const Captured captured = capture_forbids(ref)) return *captured;
  const std::lock_guard lock(ref.device->mutex);
  const Status status = ref.device->core.streams().query_stream(ref.id, thread.now_ns());
  thread.charge(status == Status::NotReady ? CostId::StreamQueryNotReady : CostId::StreamQuery);
  if (status == Status::Ok) promise_after(thread, order_key(ref));
  return to_error(status);
}

cudaError_t synchronize_stream(ThreadState& thread, cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return ref.error;
  if (const Captured captured = capture_forbids(ref)) return *captured;
  promise_after(thread, order_key(ref));
  return synchronize(thread, *ref.device, CostId::StreamSynchronize,
                     [&] { return ref.device->core.synchronize_stream(ref.id, thread.now_ns()); });
}

cudaError_t synchronize_device(ThreadState& thread) {
  SimulatedDevice* device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  promise_after(thread, device);
  return synchronize(thread, *device, CostId::DeviceSynchronize,
                     [&] { return device->core.synchronize_device(thread.now_ns()); });
}

// Sets `answer` to what `ask` says about the stream.
template <class Answer, class Ask>
cudaError_t ask_stream(ThreadState& thread, cudaStream_t stream, Answer* answer, Ask ask) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (answer == nullptr) return cudaErrorInvalidValue;
  *answer = static_cast<Answer>(ask(ref));
  return cudaSuccess;
}

// Streams of programs belong to the primary context.
CUcontext context_of(const StreamRef& ref) {
  return reinterpret_cast<CUcontext>(&primary_context(ref.device->index));
}

cudaError_t priority_range(ThreadState& thread, int* lowest, int* highest) {
  thread.charge(CostId::DeviceGetAttribute);
  if (lowest != nullptr) *lowest = 0;
  if (highest != nullptr) *highest = kPriorityHighest;
  return cudaSuccess;
}

// There are no attributes to copy: all streams have the same ones.
cudaError_t copy_stream_attributes(ThreadState& thread, cudaStream_t to, cudaStream_t from) {
  const bool valid = resolve_stream(thread, to).device != nullptr &&
                     resolve_stream(thread, from).device != nullptr;
  return valid ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

}  // namespace

SIMCUDA_RUNTIME(cudaStreamCreate, (cudaStream_t * stream), (), create_stream(thread, stream, 0, 0))

SIMCUDA_TWINS(cudaStreamCreateWithFlags, cuStreamCreate,
              (cudaStream_t * stream, unsigned int flags), (flags),
              create_stream(thread, stream, flags, 0))
SIMCUDA_TWINS(cudaStreamCreateWithPriority, cuStreamCreateWithPriority,
              (cudaStream_t * stream, unsigned int flags, int priority),
              (flags, as_number(priority)), create_stream(thread, stream, flags, priority))
SIMCUDA_TWINS(cudaStreamDestroy, cuStreamDestroy, (cudaStream_t stream), (number(stream)),
              destroy_stream(thread, stream))
SIMCUDA_TWINS(cudaStreamQuery, cuStreamQuery, (cudaStream_t stream), (number(stream)),
              query_stream(thread, stream))
SIMCUDA_TWINS(cudaStreamSynchronize, cuStreamSynchronize, (cudaStream_t stream), (number(stream)),
              synchronize_stream(thread, stream))
SIMCUDA_TWINS(cudaStreamGetFlags, cuStreamGetFlags, (cudaStream_t stream, unsigned int* flags),
              (number(stream)), ask_stream(thread, stream, flags, [](const StreamRef& ref) {
                return ref.stream == nullptr ? 0 : ref.stream->flags.load();
              }))
SIMCUDA_TWINS(cudaStreamGetPriority, cuStreamGetPriority, (cudaStream_t stream, int* priority),
              (number(stream)), ask_stream(thread, stream, priority, [](const StreamRef& ref) {
                return ref.stream == nullptr ? 0 : ref.stream->priority.load();
              }))
SIMCUDA_TWINS(cudaStreamGetId, cuStreamGetId, (cudaStream_t stream, unsigned long long* id),
              (number(stream)), ask_stream(thread, stream, id, [](const StreamRef& ref) {
                return ref.stream == nullptr ? 1 : ref.stream->number.load();
              }))
SIMCUDA_TWINS(cudaStreamCopyAttributes, cuStreamCopyAttributes,
              (cudaStream_t to, cudaStream_t from), (number(to), number(from)),
              copy_stream_attributes(thread, to, from))
SIMCUDA_TWINS(cudaDeviceGetStreamPriorityRange, cuCtxGetStreamPriorityRange,
              (int* lowest, int* highest), (), priority_range(thread, lowest, highest))
#if CUDART_VERSION >= 12080
SIMCUDA_TWINS(cudaStreamGetDevice, cuStreamGetDevice, (cudaStream_t stream, int* index),
              (number(stream)), ask_stream(thread, stream, index, [](const StreamRef& ref) {
                return ref.device->index;
              }))
#endif

SIMCUDA_TWINS(cudaDeviceSynchronize, cuCtxSynchronize, (), (), synchronize_device(thread))

SIMCUDA_DRIVER(cuStreamGetCtx, (CUstream stream, CUcontext* context), (number(stream)),
               ask_stream(thread, stream, context, context_of))
// There are no such contexts here, so a stream has none.
SIMCUDA_DRIVER(cuStreamGetGreenCtx, (CUstream stream, CUgreenCtx* context), (number(stream)),
               context == nullptr ? cudaErrorInvalidValue : (*context = nullptr, cudaSuccess))

}  // namespace simcuda

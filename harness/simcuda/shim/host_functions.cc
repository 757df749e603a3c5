#include "harness/simcuda/shim/host_functions.h"

#include <memory>
#include <mutex>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// It is the program's: ThreadSanitizer sees it, after what its caller did before.
void call_host_function(ThreadState& thread, SimulatedDevice& device, const HostFunction& what) {
  const bool was_hidden = thread.promised.hidden_depth != 0;
  if (was_hidden) show_to_sanitizer();
  acquire(&device);
  what.function(what.data);
  if (was_hidden) hide_from_sanitizer();
}

}  // namespace

cudaError_t enqueue_host_function(ThreadState& thread, SimulatedDevice& device, StreamId stream,
                                  HostFunction what) {
  {
    const std::lock_guard lock(device.mutex);
    StreamOrder& order = device.core.streams();
    const EventId after = order.create_event();
    const Status status = order.record(after, stream, thread.now_ns());
    if (status != Status::Ok) return to_error(status);
    device.host_functions.push_back({.after = after, .what = what});
  }
  run_ready_host_functions(device, thread);
  return cudaSuccess;
}

void run_ready_host_functions(SimulatedDevice& device, ThreadState& thread) {
  std::unique_lock lock(device.mutex);
  std::size_t at = 0;
  while (at < device.host_functions.size()) {
    const PendingHostFunction next = device.host_functions[at];
    StreamOrder& order = device.core.streams();
    if (order.event_finish(next.after).status == Status::Blocked) {
      ++at;
      continue;
    }
    device.host_functions.erase(device.host_functions.begin() + static_cast<std::ptrdiff_t>(at));
    // Whatever the function tells the rest of the host comes after it.
    if (order.followed() != nullptr) order.followed()->host_saw(next.after);
    static_cast<void>(order.destroy_event(next.after));
    lock.unlock();
    call_host_function(thread, device, next.what);
    lock.lock();
    at = 0;
  }
}

namespace {

cudaError_t launch_host_function(ThreadState& thread, cudaStream_t stream, cudaHostFn_t function,
                                 void* data) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (function == nullptr) return cudaErrorInvalidValue;
  thread.charge(CostId::Launch);
  if (ref.captured) [[unlikely]] {
    const Captured captured = capture_work(ref, {.kind = NodeKind::HostFunction,
                                                 .type = cudaGraphNodeTypeHost,
                                                 .function = function,
                                                 .data = data});
    if (captured) return *captured;
  }
  return enqueue_host_function(thread, *ref.device, ref.id, {function, data});
}

// cudaStreamAddCallback's functions get the stream and its state, too.
struct StreamCallback {
  cudaStreamCallback_t function = nullptr;
  cudaStream_t stream = nullptr;
  void* data = nullptr;
};
void run_callback(void* data) {
  const std::unique_ptr<StreamCallback> callback(static_cast<StreamCallback*>(data));
  callback->function(callback->stream, cudaSuccess, callback->data);
}

}  // namespace

// It waits behind the work before it, and no later work waits for it.
SIMCUDA_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                                 void* data, unsigned int flags) {
  return runtime_call<"cudaStreamAddCallback">({number(stream), flags}, [&](ThreadState& thread) {
    if (callback == nullptr || flags != 0) return cudaErrorInvalidValue;
    auto kept = std::make_unique<StreamCallback>(StreamCallback{callback, stream, data});
    const cudaError_t error = launch_host_function(thread, stream, &run_callback, kept.get());
    if (error == cudaSuccess) static_cast<void>(kept.release());  // run_callback has it
    return error;
  });
}

SIMCUDA_TWINS(cudaLaunchHostFunc, cuLaunchHostFunc,
              (cudaStream_t stream, cudaHostFn_t function, void* data), (number(stream)),
              launch_host_function(thread, stream, function, data))

}  // namespace simcuda

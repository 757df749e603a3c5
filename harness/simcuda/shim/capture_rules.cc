// Which calls a capture forbids whatever their stream, by their name. See capture.h.
#include <string_view>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/capture_state.h"
#include "harness/simcuda/shim/one_of.h"

namespace simcuda {
namespace {

// What is not put into a stream, so that a graph would miss it.
bool is_unsafe(std::string_view name) {
  return is_one_of(name, "cudaMalloc", "cuMemAlloc", "cudaMallocPitch", "cuMemAllocPitch",
                   "cudaMallocManaged", "cuMemAllocManaged", "cudaFree", "cuMemFree",
                   "cudaMallocHost", "cuMemAllocHost", "cudaHostAlloc", "cuMemHostAlloc",
                   "cudaFreeHost", "cuMemFreeHost", "cudaHostRegister", "cuMemHostRegister",
                   "cudaHostUnregister", "cuMemHostUnregister", "cudaStreamSynchronize",
                   "cuStreamSynchronize", "cudaStreamQuery", "cuStreamQuery");
}

int forbid_unsafe(const ThreadState& thread) {
  if (thread.capture_mode == cudaStreamCaptureModeRelaxed) return 0;
  bool is_any = false;
  for (Capture& capture : captures().all) {
    const bool is_own = capture.thread_ordinal == thread.ordinal;
    const bool forbids = is_own ? capture.mode != cudaStreamCaptureModeRelaxed
                                : capture.mode == cudaStreamCaptureModeGlobal &&
                                      thread.capture_mode == cudaStreamCaptureModeGlobal;
    capture.invalidated |= forbids;
    is_any |= forbids;
  }
  return is_any ? cudaErrorStreamCaptureUnsupported : 0;
}

int forbid_device_wait(const ThreadState& thread) {
  bool is_any = false;
  for (Capture& capture : captures().all) {
    if (capture.device != current_device(thread)) continue;
    capture.invalidated = true;
    is_any = true;
  }
  return is_any ? cudaErrorStreamCaptureUnsupported : forbid_unsafe(thread);
}

}  // namespace

int forbid_in_capture(const ApiRecord& api, ThreadState& thread,
                      std::initializer_list<std::uint64_t> arguments) {
  const std::string_view name = api.name;
  const bool waits_for_device = is_one_of(name, "cudaDeviceSynchronize", "cuCtxSynchronize");
  const bool asks_event = is_one_of(name, "cuEventQuery", "cuEventSynchronize", "cudaEventQuery",
                                    "cudaEventSynchronize");
  const bool copies_at_once =
      is_one_of(name, "cuMemcpy", "cuMemcpyHtoD", "cuMemcpyDtoH", "cuMemcpyDtoD", "cuMemcpy2D",
                "cuMemcpyPeer", "cudaMemcpy", "cudaMemcpy2D", "cudaMemcpyPeer");
  if (!waits_for_device && !asks_event && !copies_at_once && !is_unsafe(name)) return 0;
  const std::lock_guard lock(graph_mutex());
  if (waits_for_device) return forbid_device_wait(thread);
  if (asks_event) {
    const auto* const event = resolve_event(reinterpret_cast<cudaEvent_t>(*arguments.begin()));
    if (event != nullptr && event->capture_id != 0) return 0;
  }
  if (copies_at_once) {
    const SimulatedDevice* const device = current_device(thread);
    if (device != nullptr && device->blocking_capture_count != 0) return 0;
  }
  return forbid_unsafe(thread);
}

}  // namespace simcuda

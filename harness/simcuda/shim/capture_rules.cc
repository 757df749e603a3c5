// Which calls a capture forbids whatever their stream, by their name. See capture.h.
#include <algorithm>
#include <array>
#include <string_view>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/capture_state.h"

namespace simcuda {
namespace {

enum class Rule : std::uint8_t { Unsafe, WaitsForDevice, AsksEvent, CopiesAtOnce };
struct RuledCall {
  std::string_view name;
  Rule rule;
};
// What is not put into a stream, so that a graph would miss it.
constexpr std::array kRuledCalls = {RuledCall{"cudaMalloc", Rule::Unsafe},
                                    RuledCall{"cuMemAlloc", Rule::Unsafe},
                                    RuledCall{"cudaMallocPitch", Rule::Unsafe},
                                    RuledCall{"cuMemAllocPitch", Rule::Unsafe},
                                    RuledCall{"cudaMallocManaged", Rule::Unsafe},
                                    RuledCall{"cuMemAllocManaged", Rule::Unsafe},
                                    RuledCall{"cudaFree", Rule::Unsafe},
                                    RuledCall{"cuMemFree", Rule::Unsafe},
                                    RuledCall{"cudaMallocHost", Rule::Unsafe},
                                    RuledCall{"cuMemAllocHost", Rule::Unsafe},
                                    RuledCall{"cudaHostAlloc", Rule::Unsafe},
                                    RuledCall{"cuMemHostAlloc", Rule::Unsafe},
                                    RuledCall{"cudaFreeHost", Rule::Unsafe},
                                    RuledCall{"cuMemFreeHost", Rule::Unsafe},
                                    RuledCall{"cudaHostRegister", Rule::Unsafe},
                                    RuledCall{"cuMemHostRegister", Rule::Unsafe},
                                    RuledCall{"cudaHostUnregister", Rule::Unsafe},
                                    RuledCall{"cuMemHostUnregister", Rule::Unsafe},
                                    RuledCall{"cudaStreamSynchronize", Rule::Unsafe},
                                    RuledCall{"cuStreamSynchronize", Rule::Unsafe},
                                    RuledCall{"cudaStreamQuery", Rule::Unsafe},
                                    RuledCall{"cuStreamQuery", Rule::Unsafe},
                                    RuledCall{"cudaDeviceSynchronize", Rule::WaitsForDevice},
                                    RuledCall{"cuCtxSynchronize", Rule::WaitsForDevice},
                                    RuledCall{"cuEventQuery", Rule::AsksEvent},
                                    RuledCall{"cuEventSynchronize", Rule::AsksEvent},
                                    RuledCall{"cuMemcpy", Rule::CopiesAtOnce},
                                    RuledCall{"cuMemcpyHtoD", Rule::CopiesAtOnce},
                                    RuledCall{"cuMemcpyDtoH", Rule::CopiesAtOnce},
                                    RuledCall{"cuMemcpyDtoD", Rule::CopiesAtOnce},
                                    RuledCall{"cuMemcpy2D", Rule::CopiesAtOnce},
                                    RuledCall{"cuMemcpyPeer", Rule::CopiesAtOnce},
                                    RuledCall{"cudaEventQuery", Rule::AsksEvent},
                                    RuledCall{"cudaEventSynchronize", Rule::AsksEvent},
                                    RuledCall{"cudaMemcpy", Rule::CopiesAtOnce},
                                    RuledCall{"cudaMemcpy2D", Rule::CopiesAtOnce},
                                    RuledCall{"cudaMemcpyPeer", Rule::CopiesAtOnce}};

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
  const auto* const found = std::ranges::find(kRuledCalls, api.name, &RuledCall::name);
  if (found == kRuledCalls.end()) return 0;
  const std::lock_guard lock(graph_mutex());
  switch (found->rule) {
    case Rule::WaitsForDevice:
      return forbid_device_wait(thread);
    case Rule::AsksEvent: {
      const auto* const event = resolve_event(reinterpret_cast<cudaEvent_t>(*arguments.begin()));
      return event != nullptr && event->capture_id != 0 ? 0 : forbid_unsafe(thread);
    }
    case Rule::CopiesAtOnce: {
      const SimulatedDevice* const device = current_device(thread);
      return device != nullptr && device->blocking_capture_count != 0 ? 0 : forbid_unsafe(thread);
    }
    case Rule::Unsafe:
      break;
  }
  return forbid_unsafe(thread);
}

}  // namespace simcuda

// Where captures begin and end, and what is known of them meanwhile. See capture.h.
#include <algorithm>
#include <utility>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/capture_state.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

void leave(const SimStream& stream) {
  if (captures().by_stream.erase(&stream) == 0) return;
  if (is_blocking(stream)) --stream.device->blocking_capture_count;
  const_cast<SimStream&>(stream).captured = false;
}

// The capture is over: its streams do again what they are told.
void finish(Capture* capture) {
  for (const auto& [stream, state] : capture->streams) leave(*stream);
  capture->graph->is_captured_into = false;
  captures().all.remove_if([&](const Capture& at) { return &at == capture; });
  if (captures().all.empty()) slow_reasons.fetch_and(~static_cast<std::uint32_t>(kCapturing));
}

bool is_joined(const Capture& capture) {
  const auto joined = with_ancestors(capture.streams.at(capture.origin).dependencies);
  return std::all_of(capture.streams.begin(), capture.streams.end(), [&](const auto& at) {
    return std::all_of(at.second.dependencies.begin(), at.second.dependencies.end(),
                       [&](const SimGraphNode* node) { return joined.contains(node); });
  });
}

}  // namespace

Captures& captures() { return made_once<Captures>(); }

Capture* capture_of(const SimStream* stream) {
  const auto found = captures().by_stream.find(stream);
  return found == captures().by_stream.end() ? nullptr : found->second;
}

void join_capture(Capture& capture, const SimStream& stream,
                  std::vector<SimGraphNode*> dependencies) {
  capture.streams[&stream].dependencies = std::move(dependencies);
  captures().by_stream[&stream] = &capture;
  if (is_blocking(stream)) ++stream.device->blocking_capture_count;
  const_cast<SimStream&>(stream).captured = true;
}

void leave_capture(const SimStream& stream) {
  const std::lock_guard lock(graph_mutex());
  Capture* const capture = capture_of(&stream);
  if (capture == nullptr) return;
  if (capture->origin == &stream) {
    SimGraph* const graph = capture->owns_graph ? capture->graph : nullptr;
    finish(capture);
    if (graph != nullptr) destroy_graph(*graph);
    return;
  }
  // What it did stays to be joined by nobody.
  if (!is_joined(*capture)) capture->invalidated = true;
  capture->streams.erase(&stream);
  leave(stream);
}

CaptureInfo capture_info(const StreamRef& ref) {
  const std::lock_guard lock(graph_mutex());
  if (ref.stream == nullptr) {
    return {.error = ref.device->blocking_capture_count != 0 ? cudaErrorStreamCaptureImplicit
                                                             : cudaSuccess};
  }
  Capture* const capture = capture_of(ref.stream);
  if (capture == nullptr) return {};
  CapturedStream& stream = capture->streams.at(ref.stream);
  stream.told.clear();
  for (SimGraphNode* const node : stream.dependencies) {
    stream.told.push_back(handle_of<cudaGraphNode_t>(node));
  }
  return {.status = capture->invalidated ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive,
          .id = capture->id,
          .graph = capture->graph,
          .dependencies = stream.told.data(),
          .dependency_count = stream.told.size()};
}

cudaError_t begin_capture(const ThreadState& thread, const StreamRef& ref, CaptureBegin begin) {
  if (ref.stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (begin.mode < cudaStreamCaptureModeGlobal || begin.mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  if (capture_of(ref.stream) != nullptr) return cudaErrorIllegalState;
  SimGraph* const graph = begin.graph != nullptr ? begin.graph : new_graph();
  if (graph == nullptr) return cudaErrorMemoryAllocation;
  if (graph->is_captured_into) return cudaErrorInvalidValue;
  if (graph->device != nullptr && graph->device != ref.device) return cudaErrorNotSupported;
  graph->is_captured_into = true;
  graph->device = ref.device;
  Capture& capture = captures().all.emplace_back();
  capture.id = captures().next_id++;
  capture.origin = ref.stream;
  capture.thread_ordinal = thread.ordinal;
  capture.mode = begin.mode;
  capture.owns_graph = begin.graph == nullptr;
  capture.device = ref.device;
  capture.graph = graph;
  join_capture(capture, *ref.stream, std::move(begin.dependencies));
  slow_reasons.fetch_or(kCapturing);
  return cudaSuccess;
}

cudaError_t end_capture(const ThreadState& thread, const StreamRef& ref, cudaGraph_t* graph) {
  Capture* const capture = ref.stream == nullptr ? nullptr : capture_of(ref.stream);
  if (graph != nullptr) *graph = nullptr;
  if (capture == nullptr) return cudaErrorIllegalState;
  if (graph == nullptr) return cudaErrorInvalidValue;
  if (capture->origin != ref.stream) {
    capture->invalidated = true;
    return cudaErrorStreamCaptureUnmatched;
  }
  const bool wrong_thread =
      capture->mode != cudaStreamCaptureModeRelaxed && capture->thread_ordinal != thread.ordinal;
  SimGraph* const captured = capture->graph;
  const bool owns_graph = capture->owns_graph;
  // The wrong thread ends the capture, too.
  const cudaError_t error = wrong_thread           ? cudaErrorStreamCaptureWrongThread
                            : capture->invalidated ? cudaErrorStreamCaptureInvalidated
                            : is_joined(*capture)  ? cudaSuccess
                                                   : cudaErrorStreamCaptureUnjoined;
  finish(capture);
  if (error == cudaSuccess) {
    *graph = handle_of<cudaGraph_t>(captured);
  } else if (owns_graph) {
    destroy_graph(*captured);
  }
  return error;
}

cudaError_t update_dependencies(const StreamRef& ref, const cudaGraphNode_t* dependencies,
                                std::size_t count, unsigned flags) {
  Capture* const capture = ref.stream == nullptr ? nullptr : capture_of(ref.stream);
  if (capture == nullptr) return cudaErrorIllegalState;
  if (flags > cudaStreamSetCaptureDependencies || (dependencies == nullptr && count != 0) ||
      count > capture->graph->nodes.size()) {
    return cudaErrorInvalidValue;
  }
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  std::vector<SimGraphNode*> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    SimGraphNode* const node = resolve_node(dependencies[i]);
    if (node == nullptr || node->graph != capture->graph) return cudaErrorInvalidValue;
    wanted.push_back(node);
  }
  std::vector<SimGraphNode*>& now = capture->streams.at(ref.stream).dependencies;
  if (flags == cudaStreamSetCaptureDependencies) now.clear();
  for (SimGraphNode* const node : wanted) {
    if (std::ranges::find(now, node) == now.end()) now.push_back(node);
  }
  return cudaSuccess;
}

}  // namespace simcuda

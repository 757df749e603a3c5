// Captures as both APIs ask for them (graph_api.h).
#include <utility>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/graph_api.h"

namespace simcuda {
namespace {

// Without a device where the thread has none, or the handle is not valid.
StreamRef find_stream(ThreadState& thread, cudaStream_t stream) {
  return current_device(thread) == nullptr ? StreamRef{} : resolve_stream(thread, stream);
}

}  // namespace

cudaError_t api_begin_capture(ThreadState& thread, cudaStream_t stream,
                              cudaStreamCaptureMode mode) {
  const StreamRef ref = find_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::GetDevice);
  const std::lock_guard lock(graph_mutex());
  return begin_capture(thread, ref, {.graph = nullptr, .dependencies = {}, .mode = mode});
}

cudaError_t api_begin_capture_to_graph(ThreadState& thread, cudaStream_t stream,
                                       CaptureTarget target, cudaStreamCaptureMode mode) {
  const StreamRef ref = find_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::GetDevice);
  const std::lock_guard lock(graph_mutex());
  SimGraph* const graph = resolve_graph(target.graph);
  if (graph == nullptr || (target.dependencies == nullptr && target.dependency_count != 0) ||
      target.dependency_count > graph->nodes.size()) {
    return cudaErrorInvalidValue;
  }
  CaptureBegin begin{.graph = graph, .dependencies = {}, .mode = mode};
  for (std::size_t i = 0; i < target.dependency_count; ++i) {
    SimGraphNode* const node = resolve_node(target.dependencies[i]);
    if (node == nullptr || node->graph != graph) return cudaErrorInvalidValue;
    begin.dependencies.push_back(node);
  }
  return begin_capture(thread, ref, std::move(begin));
}

cudaError_t api_end_capture(ThreadState& thread, cudaStream_t stream, cudaGraph_t* graph) {
  const StreamRef ref = find_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::GetDevice);
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard lock(graph_mutex());
    error = end_capture(thread, ref, graph);
  }
  run_destructors();
  return error;
}

cudaError_t api_capture_info(ThreadState& thread, cudaStream_t stream, CaptureAnswer answer) {
  const StreamRef ref = find_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (answer.status == nullptr) return cudaErrorInvalidValue;
  if (answer.edges != nullptr && answer.dependencies == nullptr) return cudaErrorInvalidValue;
  thread.charge(CostId::GetDevice);
  *answer.status = cudaStreamCaptureStatusNone;
  if (!ref.captured) [[likely]] {
    return cudaSuccess;
  }
  const CaptureInfo info = capture_info(ref);
  if (info.error != cudaSuccess) return info.error;
  *answer.status = info.status;
  if (info.status != cudaStreamCaptureStatusActive) return cudaSuccess;
  if (answer.id != nullptr) *answer.id = info.id;
  if (answer.graph != nullptr) *answer.graph = handle_of<cudaGraph_t>(info.graph);
  if (answer.dependencies != nullptr) *answer.dependencies = info.dependencies;
  if (answer.dependency_count != nullptr) *answer.dependency_count = info.dependency_count;
  // Plain edges are all zero, as is this.
  static const std::vector<cudaGraphEdgeData> plain(4096);
  if (answer.edges != nullptr && info.dependency_count <= plain.size()) {
    *answer.edges = plain.data();
  }
  return cudaSuccess;
}

cudaError_t api_exchange_mode(ThreadState& thread, int* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
      *mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::GetDevice);
  *mode = std::exchange(thread.capture_mode, static_cast<cudaStreamCaptureMode>(*mode));
  return cudaSuccess;
}

cudaError_t api_update_dependencies(ThreadState& thread, cudaStream_t stream,
                                    const cudaGraphNode_t* dependencies, std::size_t count,
                                    unsigned flags) {
  const StreamRef ref = find_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(graph_mutex());
  return update_dependencies(ref, dependencies, count, flags);
}

}  // namespace simcuda

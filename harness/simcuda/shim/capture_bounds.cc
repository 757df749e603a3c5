// Where captures begin and end, and what is known of them meanwhile: the functions of both APIs.
// See capture.h.
#include <algorithm>
#include <utility>

#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/capture_state.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/twins.h"

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

namespace {

// The graph that a program captures into; null: a new one.
struct CaptureTarget {
  SimGraph* graph = nullptr;
  std::vector<SimGraphNode*> dependencies = {};
};

// With graph_mutex().
cudaError_t begin_capture(const ThreadState& thread, const StreamRef& ref, CaptureTarget target,
                          int mode) {
  if (ref.stream == nullptr) return cudaErrorStreamCaptureUnsupported;
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  if (capture_of(ref.stream) != nullptr) return cudaErrorIllegalState;
  SimGraph* const graph = target.graph != nullptr ? target.graph : new_graph();
  if (graph == nullptr) return cudaErrorMemoryAllocation;
  if (graph->is_captured_into) return cudaErrorInvalidValue;
  if (graph->device != nullptr && graph->device != ref.device) return cudaErrorNotSupported;
  graph->is_captured_into = true;
  graph->device = ref.device;
  Capture& capture = captures().all.emplace_back();
  capture.id = captures().next_id++;
  capture.origin = ref.stream;
  capture.thread_ordinal = thread.ordinal;
  capture.mode = static_cast<cudaStreamCaptureMode>(mode);
  capture.owns_graph = target.graph == nullptr;
  capture.device = ref.device;
  capture.graph = graph;
  join_capture(capture, *ref.stream, std::move(target.dependencies));
  slow_reasons.fetch_or(kCapturing);
  return cudaSuccess;
}

cudaError_t begin_in_new_graph(ThreadState& thread, cudaStream_t stream, int mode) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::GetDevice);
  const std::lock_guard lock(graph_mutex());
  return begin_capture(thread, ref, {}, mode);
}

cudaError_t begin_in_graph(ThreadState& thread, cudaStream_t stream, cudaGraph_t handle,
                           const cudaGraphNode_t* dependencies, std::size_t count, int mode) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  thread.charge(CostId::GetDevice);
  const std::lock_guard lock(graph_mutex());
  SimGraph* const graph = resolve_graph(handle);
  if (graph == nullptr) return cudaErrorInvalidValue;
  auto nodes = nodes_in(*graph, dependencies, count);
  if (!nodes) return cudaErrorInvalidValue;
  return begin_capture(thread, ref, {.graph = graph, .dependencies = std::move(*nodes)}, mode);
}

// With graph_mutex().
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

cudaError_t end_in_stream(ThreadState& thread, cudaStream_t stream, cudaGraph_t* graph) {
  const StreamRef ref = resolve_stream(thread, stream);
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

// Where nothing is captured, nothing but the status is written. Null: not asked for.
struct CaptureAnswer {
  int* status = nullptr;
  unsigned long long* id = nullptr;
  cudaGraph_t* graph = nullptr;
  const cudaGraphNode_t** dependencies = nullptr;  // valid until the stream's next call
  const cudaGraphEdgeData** edges = nullptr;
  std::size_t* dependency_count = nullptr;
};

// With graph_mutex().
cudaError_t answer_of_capture(const StreamRef& ref, const CaptureAnswer& answer) {
  if (ref.stream == nullptr) {
    return ref.device->blocking_capture_count != 0 ? cudaErrorStreamCaptureImplicit : cudaSuccess;
  }
  Capture* const capture = capture_of(ref.stream);
  if (capture == nullptr) return cudaSuccess;
  *answer.status =
      capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  if (capture->invalidated) return cudaSuccess;
  CapturedStream& stream = capture->streams.at(ref.stream);
  stream.told.clear();
  for (SimGraphNode* const node : stream.dependencies) {
    stream.told.push_back(handle_of<cudaGraphNode_t>(node));
  }
  if (answer.id != nullptr) *answer.id = capture->id;
  if (answer.graph != nullptr) *answer.graph = handle_of<cudaGraph_t>(capture->graph);
  if (answer.dependencies != nullptr) *answer.dependencies = stream.told.data();
  if (answer.dependency_count != nullptr) *answer.dependency_count = stream.told.size();
  // Plain edges are all zero, as is this.
  static const std::vector<cudaGraphEdgeData> plain(4096);
  if (answer.edges != nullptr && stream.told.size() <= plain.size()) *answer.edges = plain.data();
  return cudaSuccess;
}

cudaError_t capture_info(ThreadState& thread, cudaStream_t stream, const CaptureAnswer& answer) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (answer.status == nullptr) return cudaErrorInvalidValue;
  if (answer.edges != nullptr && answer.dependencies == nullptr) return cudaErrorInvalidValue;
  thread.charge(CostId::GetDevice);
  *answer.status = cudaStreamCaptureStatusNone;
  if (!ref.captured) [[likely]] {
    return cudaSuccess;
  }
  const std::lock_guard lock(graph_mutex());
  return answer_of_capture(ref, answer);
}

// The runtime's have a status even where there is an error.
cudaError_t capture_info_of(ThreadState& thread, cudaStream_t stream,
                            cudaStreamCaptureStatus* status, CaptureAnswer answer) {
  if (status != nullptr) *status = cudaStreamCaptureStatusNone;
  answer.status = as_runtime<int*>(status);
  return capture_info(thread, stream, answer);
}

cudaError_t exchange_capture_mode(ThreadState& thread, int* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
      *mode > cudaStreamCaptureModeRelaxed) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::GetDevice);
  *mode = std::exchange(thread.capture_mode, static_cast<cudaStreamCaptureMode>(*mode));
  return cudaSuccess;
}

cudaError_t update_dependencies(ThreadState& thread, cudaStream_t stream,
                                const cudaGraphNode_t* dependencies, std::size_t count,
                                unsigned flags) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  const std::lock_guard lock(graph_mutex());
  Capture* const capture = ref.stream == nullptr ? nullptr : capture_of(ref.stream);
  if (capture == nullptr) return cudaErrorIllegalState;
  if (flags > cudaStreamSetCaptureDependencies || (dependencies == nullptr && count != 0) ||
      count > capture->graph->nodes.size()) {
    return cudaErrorInvalidValue;
  }
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  const auto wanted = nodes_in(*capture->graph, dependencies, count);
  if (!wanted) return cudaErrorInvalidValue;
  std::vector<SimGraphNode*>& now = capture->streams.at(ref.stream).dependencies;
  if (flags == cudaStreamSetCaptureDependencies) now.clear();
  add_once(now, *wanted);
  return cudaSuccess;
}

}  // namespace

// Edges are not looked at: only plain ones are known.
// The driver's is defined under the name that the header gives it (cuStreamBeginCapture_v2).
SIMCUDA_PAIR(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
             cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
             (number(stream), as_number(mode)), begin_in_new_graph(thread, stream, mode))
SIMCUDA_PAIR(cudaStreamBeginCaptureToGraph,
             (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              const cudaGraphEdgeData* /*edges*/, size_t count, cudaStreamCaptureMode mode),
             cuStreamBeginCaptureToGraph,
             (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
              const CUgraphEdgeData* /*edges*/, size_t count, CUstreamCaptureMode mode),
             (number(stream), number(graph), count, as_number(mode)),
             begin_in_graph(thread, stream, graph, dependencies, count, mode))
SIMCUDA_TWINS(cudaStreamEndCapture, cuStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph),
              (number(stream)), end_in_stream(thread, stream, graph))
SIMCUDA_PAIR(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
             cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (),
             exchange_capture_mode(thread, as_runtime<int*>(mode)))
SIMCUDA_RUNTIME(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                (number(stream)), capture_info_of(thread, stream, status, {}))
SIMCUDA_DRIVER(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
               (number(stream)), capture_info(thread, stream, {.status = as_runtime<int*>(status)}))
SIMCUDA_DRIVER(cuStreamGetCaptureInfo_v2,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, size_t* count),
               (number(stream)),
               capture_info(thread, stream,
                            {.status = as_runtime<int*>(status),
                             .id = as_runtime<unsigned long long*>(id),
                             .graph = graph,
                             .dependencies = dependencies,
                             .dependency_count = count}))

// What takes edge data in CUDA 13 took none in 12.
#if CUDART_VERSION >= 13000
SIMCUDA_RUNTIME(cudaStreamGetCaptureInfo,
                (cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                 cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
                 const cudaGraphEdgeData** edges, size_t* count),
                (number(stream)),
                capture_info_of(thread, stream, status,
                                {.id = id,
                                 .graph = graph,
                                 .dependencies = dependencies,
                                 .edges = edges,
                                 .dependency_count = count}))
SIMCUDA_RUNTIME(cudaStreamUpdateCaptureDependencies,
                (cudaStream_t stream, cudaGraphNode_t* dependencies,
                 const cudaGraphEdgeData* /*edges*/, size_t count, unsigned int flags),
                (number(stream), count, flags),
                update_dependencies(thread, stream, dependencies, count, flags))
#endif
#if CUDA_VERSION >= 12030
SIMCUDA_DRIVER(cuStreamGetCaptureInfo_v3,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
               (number(stream)),
               capture_info(thread, stream,
                            {.status = as_runtime<int*>(status),
                             .id = as_runtime<unsigned long long*>(id),
                             .graph = graph,
                             .dependencies = dependencies,
                             .edges = as_runtime<const cudaGraphEdgeData**>(edges),
                             .dependency_count = count}))
SIMCUDA_FUNCTION(driver_call, CUresult, cuStreamUpdateCaptureDependencies_v2,
                 "cuStreamUpdateCaptureDependencies",
                 (CUstream stream, CUgraphNode* dependencies, const CUgraphEdgeData* /*edges*/,
                  size_t count, unsigned int flags),
                 (number(stream), count, flags),
                 as_result(update_dependencies(thread, stream, dependencies, count, flags)))
#endif

}  // namespace simcuda

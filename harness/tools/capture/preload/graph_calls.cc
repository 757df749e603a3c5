// The functions of captures and graphs. With PyTorch a capture belongs to the private pool that its
// allocator was told of last; without, to a pool of its own as soon as it asks for memory.
#include <atomic>

#include "harness/tools/capture/preload/call.h"

// Programs that are compiled with a default stream for each thread call these.
extern "C" {
cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t, cudaStream_t);
// CUDA 11 has five arguments where later ones have three; what is more is ignored.
__attribute__((visibility("default"))) cudaError_t instantiate_graph(
    cudaGraphExec_t*, cudaGraph_t, std::uint64_t, std::uint64_t,
    std::uint64_t) __asm__("cudaGraphInstantiate");
}

namespace allocmark_capture {
namespace {

std::atomic<int> captures_under_way = 0;

template <class Handle>
std::uint64_t number_of(Handle handle) {
  return reinterpret_cast<std::uint64_t>(handle);
}

cudaError_t note_begun(const Call& call, cudaError_t answer, cudaStream_t stream) {
  const bool of_torch = hears_torch();
  if (answer != cudaSuccess || !call.is_programs() || (!of_torch && !records_runtime()))
    return answer;
  CaptureUnderWay capture{.stream = stream_number(stream), .pool = {.device = current_device()}};
  if (!of_torch) {
    ++captures_under_way;
    capture.id = capture_id_of(stream);
  }
  const LockedRecorder recorder;
  if (!recorder->is_on()) return answer;
  if (of_torch) {
    DeviceTrace* const trace = recorder->device(capture.pool.device);
    if (trace == nullptr) return answer;
    capture.pool.key = trace->pool_begun_last();
    if (!trace->capture_begun(capture.pool.key, capture.stream)) return answer;
  }
  recorder->graphs().captures[capture.stream] = capture;
  return answer;
}

void release_unused(Recorder& recorder, const PoolOfGraph& pool) {
  if (!pool.is_ours || recorder.graphs().uses(pool)) return;
  if (DeviceTrace* const trace = recorder.device(pool.device); trace != nullptr)
    trace->pool_released(pool.key);
}

cudaError_t note_ended(const Call& call, cudaError_t answer, cudaStream_t stream,
                       cudaGraph_t* graph) {
  if (!call.is_programs()) return answer;
  const LockedRecorder recorder;
  GraphPools& graphs = recorder->graphs();
  const auto found = graphs.captures.find(stream_number(stream));
  if (found == graphs.captures.end()) return answer;
  const CaptureUnderWay capture = found->second;
  graphs.captures.erase(found);
  if (capture.id != 0) --captures_under_way;
  if (!capture.pool.is_any()) return answer;
  if (DeviceTrace* const trace = recorder->device(capture.pool.device); trace != nullptr) {
    trace->capture_ended(capture.pool.key);
    if (capture.pool.is_ours) trace->pool_ended(capture.pool.key);
  }
  if (answer == cudaSuccess && graph != nullptr && *graph != nullptr)
    graphs.graphs[number_of(*graph)] = capture.pool;
  release_unused(*recorder.operator->(), capture.pool);
  return answer;
}

cudaError_t note_instantiated(const Call& call, cudaError_t answer, cudaGraphExec_t* exec,
                              cudaGraph_t graph) {
  if (answer != cudaSuccess || !call.is_programs()) return answer;
  const LockedRecorder recorder;
  const auto found = recorder->graphs().graphs.find(number_of(graph));
  if (found != recorder->graphs().graphs.end())
    recorder->graphs().execs[number_of(*exec)] = found->second;
  return answer;
}

// Before the call: the runtime may give another graph the handle at once.
void note_destroyed(const Call& call, std::uint64_t handle, bool is_exec) {
  if (!call.is_programs()) return;
  const LockedRecorder recorder;
  auto& known = is_exec ? recorder->graphs().execs : recorder->graphs().graphs;
  const auto found = known.find(handle);
  if (found == known.end()) return;
  const PoolOfGraph pool = found->second;
  known.erase(found);
  release_unused(*recorder.operator->(), pool);
}

cudaError_t note_launched(const Call& call, cudaError_t answer, cudaGraphExec_t exec,
                          cudaStream_t stream) {
  if (answer != cudaSuccess || !call.is_programs()) return answer;
  const LockedRecorder recorder;
  const auto found = recorder->graphs().execs.find(number_of(exec));
  if (found == recorder->graphs().execs.end()) return answer;
  if (DeviceTrace* const trace = recorder->device(found->second.device); trace != nullptr)
    trace->replayed(found->second.key, stream_number(stream));
  return answer;
}

}  // namespace

std::uint64_t capture_id_of(cudaStream_t stream) {
  if (captures_under_way.load(std::memory_order_relaxed) == 0 || stream_number(stream) == 0)
    return 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  // Older runtimes have fewer arguments, all of them behind these three.
  const cudaError_t answer =
      REAL(cudaStreamGetCaptureInfo)(stream, &status, &id, nullptr, nullptr, nullptr, nullptr);
  return answer == cudaSuccess && status == cudaStreamCaptureStatusActive ? id : 0;
}

std::uint64_t ask_for_graph(Recorder& recorder, int device, const MemoryRequest& request) {
  CaptureUnderWay* const capture = recorder.graphs().find(request.capture_id);
  DeviceTrace* const trace = recorder.device(device);
  if (capture == nullptr || trace == nullptr) return request.stream;
  if (!capture->pool.is_any()) {
    capture->pool = {
        .device = device, .key = {0, ++recorder.graphs().number_last}, .is_ours = true};
    trace->pool_begun(capture->pool.key, capture->stream);
    (void)trace->capture_begun(capture->pool.key, capture->stream);
  }
  ++trace->counts().graph_requests;
  return capture->stream;
}

CAPTURE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const Call call;
  return note_begun(call, REAL(cudaStreamBeginCapture)(stream, mode), stream);
}

CAPTURE_EXPORT cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                                       cudaStreamCaptureMode mode) {
  const Call call;
  return note_begun(call, REAL(cudaStreamBeginCapture_ptsz)(stream, mode), own_stream(stream));
}

CAPTURE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  return note_ended(call, REAL(cudaStreamEndCapture)(stream, graph), stream, graph);
}

CAPTURE_EXPORT cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  const Call call;
  return note_ended(call, REAL(cudaStreamEndCapture_ptsz)(stream, graph), own_stream(stream),
                    graph);
}

CAPTURE_EXPORT cudaError_t instantiate_graph(cudaGraphExec_t* exec, cudaGraph_t graph,
                                             std::uint64_t third, std::uint64_t fourth,
                                             std::uint64_t fifth) {
  const Call call;
  const auto real_one = real<"cudaGraphInstantiate", decltype(&instantiate_graph)>();
  return note_instantiated(call, real_one(exec, graph, third, fourth, fifth), exec, graph);
}

CAPTURE_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         unsigned long long flags) {
  const Call call;
  return note_instantiated(call, REAL(cudaGraphInstantiateWithFlags)(exec, graph, flags), exec,
                           graph);
}

CAPTURE_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                          cudaGraphInstantiateParams* parameters) {
  const Call call;
  return note_instantiated(call, REAL(cudaGraphInstantiateWithParams)(exec, graph, parameters),
                           exec, graph);
}

CAPTURE_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  const Call call;
  note_destroyed(call, number_of(exec), true);
  return REAL(cudaGraphExecDestroy)(exec);
}

CAPTURE_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const Call call;
  note_destroyed(call, number_of(graph), false);
  return REAL(cudaGraphDestroy)(graph);
}

CAPTURE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Call call;
  return note_launched(call, REAL(cudaGraphLaunch)(exec, stream), exec, stream);
}

CAPTURE_EXPORT cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  const Call call;
  return note_launched(call, REAL(cudaGraphLaunch_ptsz)(exec, stream), exec, own_stream(stream));
}

}  // namespace allocmark_capture

// The variants that programs built with --default-stream per-thread call: stream 0 means the
// calling thread's own default stream. In: the plain functions' arguments. Out: what those answer.
#include "harness/simcuda/shim/call.h"

namespace {

cudaStream_t own(cudaStream_t stream) { return stream == nullptr ? cudaStreamPerThread : stream; }

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaMallocAsync_ptsz(void** pointer, size_t size_bytes,
                                                cudaStream_t stream) {
  return cudaMallocAsync(pointer, size_bytes, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, size_t size_bytes,
                                                        cudaMemPool_t pool, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(pointer, size_bytes, pool, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return cudaFreeAsync(pointer, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return cudaStreamQuery(own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return cudaStreamSynchronize(own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event,
                                                    unsigned int flags) {
  return cudaStreamWaitEvent(own(stream), event, flags);
}
SIMCUDA_EXPORT cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream,
                                                      cudaStreamCaptureStatus* status) {
  return cudaStreamIsCapturing(own(stream), status);
}
SIMCUDA_EXPORT cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecord(event, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaMemcpyAsync_ptsz(void* to, const void* from, size_t size_bytes,
                                                cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, size_bytes, kind, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaMemsetAsync_ptsz(void* pointer, int value, size_t size_bytes,
                                                cudaStream_t stream) {
  return cudaMemsetAsync(pointer, value, size_bytes, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block,
                                                 void** arguments, size_t shared_memory_bytes,
                                                 cudaStream_t stream) {
  return cudaLaunchKernel(function, grid, block, arguments, shared_memory_bytes, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function,
                                                   void* data) {
  return cudaLaunchHostFunc(own(stream), function, data);
}
SIMCUDA_EXPORT cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream,
                                                       cudaStreamCaptureMode mode) {
  return cudaStreamBeginCapture(own(stream), mode);
}
SIMCUDA_EXPORT cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return cudaStreamEndCapture(own(stream), graph);
}
SIMCUDA_EXPORT cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphLaunch(exec, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaGraphUpload_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return cudaGraphUpload(exec, own(stream));
}
SIMCUDA_EXPORT cudaError_t cudaGraphInstantiateWithParams_ptsz(
    cudaGraphExec_t* exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters) {
  return cudaGraphInstantiateWithParams(exec, graph, parameters);
}
#if CUDART_VERSION >= 13000
SIMCUDA_EXPORT cudaError_t cudaStreamBeginCaptureToGraph_ptsz(
    cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
    const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode) {
  return cudaStreamBeginCaptureToGraph(own(stream), graph, dependencies, edges, count, mode);
}
SIMCUDA_EXPORT cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream,
                                                         cudaStreamCaptureStatus* status,
                                                         unsigned long long* id, cudaGraph_t* graph,
                                                         const cudaGraphNode_t** dependencies,
                                                         const cudaGraphEdgeData** edges,
                                                         size_t* count) {
  return cudaStreamGetCaptureInfo(own(stream), status, id, graph, dependencies, edges, count);
}
SIMCUDA_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies_ptsz(cudaStream_t stream,
                                                                    cudaGraphNode_t* dependencies,
                                                                    const cudaGraphEdgeData* edges,
                                                                    size_t count,
                                                                    unsigned int flags) {
  return cudaStreamUpdateCaptureDependencies(own(stream), dependencies, edges, count, flags);
}
#endif

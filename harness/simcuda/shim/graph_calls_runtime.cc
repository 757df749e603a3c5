// The runtime's functions of captures and graphs whose types the driver names differently. In: what
// programs call. Out: what graph_api.h answers.
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {

SIMCUDA_RUNTIME(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
                (number(stream), static_cast<std::uint64_t>(mode)),
                api_begin_capture(thread, stream, mode))

SIMCUDA_RUNTIME(cudaStreamBeginCaptureToGraph,
                (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                 const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
                (number(stream), number(graph), count, static_cast<std::uint64_t>(mode)),
                api_begin_capture_to_graph(thread, stream, {graph, dependencies, edges, count},
                                           mode))

SIMCUDA_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                 cudaStreamCaptureStatus* status) {
  return runtime_call<"cudaStreamIsCapturing">({number(stream)}, [&](ThreadState& thread) {
    int answer = cudaStreamCaptureStatusNone;
    const cudaError_t error =
        api_capture_info(thread, stream, {.status = status == nullptr ? nullptr : &answer});
    if (status != nullptr) *status = static_cast<cudaStreamCaptureStatus>(answer);
    return error;
  });
}

SIMCUDA_RUNTIME(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode), (),
                api_exchange_mode(thread, as_int(mode)))

SIMCUDA_RUNTIME(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
                (number(node)), api_node_type(thread, node, as_int(type)))

// What takes edge data in CUDA 13 took none in 12.
#if CUDART_VERSION >= 13000
SIMCUDA_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                    cudaStreamCaptureStatus* status,
                                                    unsigned long long* id, cudaGraph_t* graph,
                                                    const cudaGraphNode_t** dependencies,
                                                    const cudaGraphEdgeData** edges,
                                                    size_t* count) {
  return runtime_call<"cudaStreamGetCaptureInfo">({number(stream)}, [&](ThreadState& thread) {
    int answer = cudaStreamCaptureStatusNone;
    const void* plain = nullptr;
    const cudaError_t error = api_capture_info(thread, stream,
                                               {.status = status == nullptr ? nullptr : &answer,
                                                .id = id,
                                                .graph = graph,
                                                .dependencies = dependencies,
                                                .edges = edges == nullptr ? nullptr : &plain,
                                                .dependency_count = count});
    if (status != nullptr) *status = static_cast<cudaStreamCaptureStatus>(answer);
    if (edges != nullptr && plain != nullptr) *edges = static_cast<const cudaGraphEdgeData*>(plain);
    return error;
  });
}

SIMCUDA_RUNTIME(cudaStreamUpdateCaptureDependencies,
                (cudaStream_t stream, cudaGraphNode_t* dependencies,
                 const cudaGraphEdgeData* /*edges*/, size_t count, unsigned int flags),
                (number(stream), count, flags),
                api_update_dependencies(thread, stream, dependencies, count, flags))

SIMCUDA_RUNTIME(cudaGraphGetEdges,
                (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                 cudaGraphEdgeData* edges, size_t* count),
                (number(graph)), api_graph_edges(thread, graph, from, to, edges, count))

SIMCUDA_RUNTIME(cudaGraphNodeGetDependencies,
                (cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), api_node_dependencies(thread, node, dependencies, edges, count))

SIMCUDA_RUNTIME(cudaGraphNodeGetDependentNodes,
                (cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), api_node_dependents(thread, node, dependents, edges, count))
#endif

SIMCUDA_RUNTIME(cudaGraphAddMemAllocNode,
                (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                 size_t count, cudaMemAllocNodeParams* parameters),
                (number(graph), count),
                api_add_allocation_node(thread, {node, graph, dependencies, count}, parameters))

SIMCUDA_RUNTIME(cudaGraphAddMemFreeNode,
                (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                 size_t count, void* pointer),
                (number(graph), count, number(pointer)),
                api_add_free_node(thread, {node, graph, dependencies, count}, number(pointer)))

SIMCUDA_RUNTIME(cudaGraphMemAllocNodeGetParams,
                (cudaGraphNode_t node, cudaMemAllocNodeParams* parameters), (number(node)),
                api_allocation_node(thread, node, parameters))

SIMCUDA_RUNTIME(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* pointer),
                (number(node)), api_free_node(thread, node, static_cast<std::uint64_t*>(pointer)))

SIMCUDA_RUNTIME(cudaGraphInstantiate,
                (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
                (number(graph), flags), api_instantiate(thread, exec, graph, flags))

SIMCUDA_RUNTIME(cudaGraphInstantiateWithFlags,
                (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
                (number(graph), flags), api_instantiate(thread, exec, graph, flags))

SIMCUDA_RUNTIME(cudaGraphInstantiateWithParams,
                (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
                (number(graph)), api_instantiate_with(thread, exec, graph, parameters))

SIMCUDA_RUNTIME(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
                (number(exec)), api_exec_flags(thread, exec, flags))

SIMCUDA_RUNTIME(cudaGraphExecUpdate,
                (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result),
                (number(exec), number(graph)), api_exec_update(thread, exec, graph, result))

SIMCUDA_RUNTIME(cudaDeviceGetGraphMemAttribute,
                (int device, cudaGraphMemAttributeType attribute, void* value),
                (as_number(device), static_cast<std::uint64_t>(attribute)),
                api_get_graph_memory(thread, device, attribute, value))

SIMCUDA_RUNTIME(cudaDeviceSetGraphMemAttribute,
                (int device, cudaGraphMemAttributeType attribute, void* value),
                (as_number(device), static_cast<std::uint64_t>(attribute)),
                api_set_graph_memory(thread, device, attribute, value))

}  // namespace simcuda

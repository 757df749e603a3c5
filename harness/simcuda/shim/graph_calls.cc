// The exported functions of captures and graphs. In: what programs call, of the driver's by the
// names that cuda.h gives them and by those without edge data. Out: what graph_api.h answers.
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// The runtime's have a status even where there is an error.
cudaError_t capture_info_of(ThreadState& thread, cudaStream_t stream,
                            cudaStreamCaptureStatus* status, CaptureAnswer answer) {
  if (status != nullptr) *status = cudaStreamCaptureStatusNone;
  answer.status = as_runtime<int*>(status);
  return api_capture_info(thread, stream, answer);
}

}  // namespace

// ---- captures

// The driver's is defined under the name that the header gives it (cuStreamBeginCapture_v2).
SIMCUDA_PAIR(cudaStreamBeginCapture, (cudaStream_t stream, cudaStreamCaptureMode mode),
             cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
             (number(stream), as_number(mode)),
             api_begin_capture(thread, stream, as_runtime<cudaStreamCaptureMode>(mode)))
SIMCUDA_PAIR(cudaStreamBeginCaptureToGraph,
             (cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              const cudaGraphEdgeData* edges, size_t count, cudaStreamCaptureMode mode),
             cuStreamBeginCaptureToGraph,
             (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
              const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode),
             (number(stream), number(graph), count, as_number(mode)),
             api_begin_capture_to_graph(thread, stream, {graph, dependencies, edges, count},
                                        as_runtime<cudaStreamCaptureMode>(mode)))
SIMCUDA_TWINS(cudaStreamEndCapture, cuStreamEndCapture, (cudaStream_t stream, cudaGraph_t* graph),
              (number(stream)), api_end_capture(thread, stream, graph))
SIMCUDA_PAIR(cudaThreadExchangeStreamCaptureMode, (cudaStreamCaptureMode * mode),
             cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (),
             api_exchange_mode(thread, as_runtime<int*>(mode)))
SIMCUDA_RUNTIME(cudaStreamIsCapturing, (cudaStream_t stream, cudaStreamCaptureStatus* status),
                (number(stream)), capture_info_of(thread, stream, status, {}))
SIMCUDA_DRIVER(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
               (number(stream)),
               api_capture_info(thread, stream, {.status = as_runtime<int*>(status)}))
SIMCUDA_DRIVER(cuStreamGetCaptureInfo_v2,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, size_t* count),
               (number(stream)),
               api_capture_info(thread, stream,
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
                api_update_dependencies(thread, stream, dependencies, count, flags))
SIMCUDA_RUNTIME(cudaGraphGetEdges,
                (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                 cudaGraphEdgeData* edges, size_t* count),
                (number(graph)), api_graph_edges(graph, from, to, edges, count))
SIMCUDA_RUNTIME(cudaGraphNodeGetDependencies,
                (cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), api_node_dependencies(node, dependencies, edges, count))
SIMCUDA_RUNTIME(cudaGraphNodeGetDependentNodes,
                (cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), api_node_dependents(node, dependents, edges, count))
#endif
#if CUDA_VERSION >= 12030
SIMCUDA_DRIVER(cuStreamGetCaptureInfo_v3,
               (CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                const CUgraphNode** dependencies, const CUgraphEdgeData** edges, size_t* count),
               (number(stream)),
               api_capture_info(thread, stream,
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
                 as_result(api_update_dependencies(thread, stream, dependencies, count, flags)))
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphGetEdges_v2, "cuGraphGetEdges",
                 (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                  size_t* count),
                 (number(graph)), as_result(api_graph_edges(graph, from, to, edges, count)))
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphNodeGetDependencies_v2, "cuGraphNodeGetDependencies",
                 (CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* edges,
                  size_t* count),
                 (number(node)), as_result(api_node_dependencies(node, dependencies, edges, count)))
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphNodeGetDependentNodes_v2,
                 "cuGraphNodeGetDependentNodes",
                 (CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* edges, size_t* count),
                 (number(node)), as_result(api_node_dependents(node, dependents, edges, count)))
#endif

// ---- graphs and nodes

SIMCUDA_TWINS(cudaGraphCreate, cuGraphCreate, (cudaGraph_t * graph, unsigned int flags), (flags),
              api_graph_create(graph, flags))
SIMCUDA_TWINS(cudaGraphDestroy, cuGraphDestroy, (cudaGraph_t graph), (number(graph)),
              api_graph_destroy(graph))
SIMCUDA_TWINS(cudaGraphClone, cuGraphClone, (cudaGraph_t * clone, cudaGraph_t original),
              (number(original)), api_graph_clone(clone, original))
SIMCUDA_TWINS(cudaGraphGetNodes, cuGraphGetNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              api_graph_nodes(graph, nodes, count))
SIMCUDA_TWINS(cudaGraphGetRootNodes, cuGraphGetRootNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              api_graph_roots(graph, nodes, count))
SIMCUDA_TWINS(cudaGraphDebugDotPrint, cuGraphDebugDotPrint,
              (cudaGraph_t graph, const char* path, unsigned int flags), (number(graph), flags),
              api_graph_print(graph, path))
SIMCUDA_TWINS(cudaGraphAddEmptyNode, cuGraphAddEmptyNode,
              (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
               size_t count),
              (number(graph), count), api_add_empty_node({node, graph, dependencies, count}))
SIMCUDA_PAIR(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
             cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), (number(node)),
             api_node_type(node, as_runtime<int*>(type)))
SIMCUDA_PAIR(cudaGraphAddMemAllocNode,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              size_t count, cudaMemAllocNodeParams* parameters),
             cuGraphAddMemAllocNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
              CUDA_MEM_ALLOC_NODE_PARAMS* parameters),
             (number(graph), count),
             api_add_allocation_node(thread, {node, graph, dependencies, count},
                                     as_runtime<cudaMemAllocNodeParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphMemAllocNodeGetParams,
             (cudaGraphNode_t node, cudaMemAllocNodeParams* parameters),
             cuGraphMemAllocNodeGetParams,
             (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters), (number(node)),
             api_allocation_node(node, as_runtime<cudaMemAllocNodeParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphAddMemFreeNode,
             (cudaGraphNode_t * node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
              size_t count, void* pointer),
             cuGraphAddMemFreeNode,
             (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
              CUdeviceptr pointer),
             (number(graph), count, number(pointer)),
             api_add_free_node({node, graph, dependencies, count}, number(pointer)))
SIMCUDA_PAIR(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* pointer),
             cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* pointer), (number(node)),
             api_free_node(node, as_runtime<std::uint64_t*>(pointer)))

// ---- executable graphs

SIMCUDA_RUNTIME(cudaGraphInstantiate,
                (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
                (number(graph), flags), api_instantiate(thread, exec, graph, flags))
SIMCUDA_TWINS(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
              (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
              (number(graph), flags), api_instantiate(thread, exec, graph, flags))
SIMCUDA_PAIR(cudaGraphInstantiateWithParams,
             (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
             cuGraphInstantiateWithParams,
             (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
             (number(graph)),
             api_instantiate_with(thread, exec, graph,
                                  as_runtime<cudaGraphInstantiateParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
             cuGraphExecGetFlags, (CUgraphExec exec, cuuint64_t* flags), (number(exec)),
             api_exec_flags(exec, as_runtime<unsigned long long*>(flags)))

// The driver's is defined under the name that the header gives it (cuGraphExecUpdate_v2).
SIMCUDA_PAIR(cudaGraphExecUpdate,
             (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result),
             cuGraphExecUpdate,
             (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result),
             (number(exec), number(graph)),
             api_exec_update(exec, graph, as_runtime<cudaGraphExecUpdateResultInfo*>(result)))
SIMCUDA_TWINS(cudaGraphExecDestroy, cuGraphExecDestroy, (cudaGraphExec_t exec), (number(exec)),
              api_exec_destroy(exec))
SIMCUDA_TWINS(cudaGraphLaunch, cuGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), api_launch(thread, exec, stream))
SIMCUDA_TWINS(cudaGraphUpload, cuGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream),
              (number(exec), number(stream)), api_upload(thread, exec, stream))

// ---- the device's memory of graphs

SIMCUDA_PAIR(cudaDeviceGetGraphMemAttribute,
             (int device, cudaGraphMemAttributeType attribute, void* value),
             cuDeviceGetGraphMemAttribute,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (as_number(device), as_number(attribute)),
             api_get_graph_memory(thread, device, attribute, value))
SIMCUDA_PAIR(cudaDeviceSetGraphMemAttribute,
             (int device, cudaGraphMemAttributeType attribute, void* value),
             cuDeviceSetGraphMemAttribute,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (as_number(device), as_number(attribute)),
             api_set_graph_memory(thread, device, attribute, value))
SIMCUDA_TWINS(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int device), (as_number(device)),
              api_trim_graph_memory(thread, device))

}  // namespace simcuda

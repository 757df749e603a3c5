// The driver's functions of captures and graphs whose types the runtime names differently. In: what
// programs call, by the names that cuda.h gives them and by those without edge data. Out: what
// graph_api.h answers.
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

CUresult capture_info_of(ThreadState& thread, CUstream stream, CaptureAnswer answer) {
  return static_cast<CUresult>(api_capture_info(thread, stream, answer));
}

}  // namespace

// Defined under the name that the header gives it (cuStreamBeginCapture_v2).
SIMCUDA_DRIVER(cuStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
               (number(stream), static_cast<std::uint64_t>(mode)),
               api_begin_capture(thread, stream, static_cast<cudaStreamCaptureMode>(mode)))

SIMCUDA_DRIVER(cuStreamBeginCaptureToGraph,
               (CUstream stream, CUgraph graph, const CUgraphNode* dependencies,
                const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode),
               (number(stream), number(graph), count, static_cast<std::uint64_t>(mode)),
               api_begin_capture_to_graph(thread, stream, {graph, dependencies, edges, count},
                                          static_cast<cudaStreamCaptureMode>(mode)))

SIMCUDA_DRIVER(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus* status),
               (number(stream)), capture_info_of(thread, stream, {.status = as_int(status)}))

SIMCUDA_DRIVER(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode), (),
               api_exchange_mode(thread, as_int(mode)))

SIMCUDA_DRIVER(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), (number(node)),
               api_node_type(thread, node, as_int(type)))

SIMCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status,
                                                  cuuint64_t* id, CUgraph* graph,
                                                  const CUgraphNode** dependencies, size_t* count) {
  return driver_call<"cuStreamGetCaptureInfo_v2">({number(stream)}, [&](ThreadState& thread) {
    unsigned long long wide_id = 0;
    const CUresult result = capture_info_of(thread, stream,
                                            {.status = as_int(status),
                                             .id = &wide_id,
                                             .graph = graph,
                                             .dependencies = dependencies,
                                             .dependency_count = count});
    if (id != nullptr && wide_id != 0) *id = wide_id;
    return result;
  });
}

#if CUDA_VERSION >= 12030
SIMCUDA_EXPORT CUresult cuStreamGetCaptureInfo_v3(CUstream stream, CUstreamCaptureStatus* status,
                                                  cuuint64_t* id, CUgraph* graph,
                                                  const CUgraphNode** dependencies,
                                                  const CUgraphEdgeData** edges, size_t* count) {
  return driver_call<"cuStreamGetCaptureInfo_v3">({number(stream)}, [&](ThreadState& thread) {
    unsigned long long wide_id = 0;
    const void* plain = nullptr;
    const CUresult result = capture_info_of(thread, stream,
                                            {.status = as_int(status),
                                             .id = &wide_id,
                                             .graph = graph,
                                             .dependencies = dependencies,
                                             .edges = edges == nullptr ? nullptr : &plain,
                                             .dependency_count = count});
    if (id != nullptr && wide_id != 0) *id = wide_id;
    if (edges != nullptr && plain != nullptr) *edges = static_cast<const CUgraphEdgeData*>(plain);
    return result;
  });
}

SIMCUDA_EXPORT CUresult cuStreamUpdateCaptureDependencies_v2(CUstream stream,
                                                             CUgraphNode* dependencies,
                                                             const CUgraphEdgeData* /*edges*/,
                                                             size_t count, unsigned int flags) {
  return driver_call<"cuStreamUpdateCaptureDependencies">(
      {number(stream), count, flags}, [&](ThreadState& thread) {
        return static_cast<CUresult>(
            api_update_dependencies(thread, stream, dependencies, count, flags));
      });
}

SIMCUDA_EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from, CUgraphNode* to,
                                           CUgraphEdgeData* edges, size_t* count) {
  return driver_call<"cuGraphGetEdges">({number(graph)}, [&](ThreadState& thread) {
    return static_cast<CUresult>(api_graph_edges(thread, graph, from, to, edges, count));
  });
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode* dependencies,
                                                      CUgraphEdgeData* edges, size_t* count) {
  return driver_call<"cuGraphNodeGetDependencies">({number(node)}, [&](ThreadState& thread) {
    return static_cast<CUresult>(api_node_dependencies(thread, node, dependencies, edges, count));
  });
}

SIMCUDA_EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode* dependents,
                                                        CUgraphEdgeData* edges, size_t* count) {
  return driver_call<"cuGraphNodeGetDependentNodes">({number(node)}, [&](ThreadState& thread) {
    return static_cast<CUresult>(api_node_dependents(thread, node, dependents, edges, count));
  });
}
#endif

// The two structures have the same members in the same order.
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS) == sizeof(cudaMemAllocNodeParams));
static_assert(sizeof(CUDA_GRAPH_INSTANTIATE_PARAMS) == sizeof(cudaGraphInstantiateParams));

SIMCUDA_DRIVER(cuGraphAddMemAllocNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                CUDA_MEM_ALLOC_NODE_PARAMS* parameters),
               (number(graph), count),
               api_add_allocation_node(thread, {node, graph, dependencies, count},
                                       reinterpret_cast<cudaMemAllocNodeParams*>(parameters)))

SIMCUDA_DRIVER(cuGraphMemAllocNodeGetParams,
               (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters), (number(node)),
               api_allocation_node(thread, node,
                                   reinterpret_cast<cudaMemAllocNodeParams*>(parameters)))

SIMCUDA_DRIVER(cuGraphAddMemFreeNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                CUdeviceptr address),
               (number(graph), count, address),
               api_add_free_node(thread, {node, graph, dependencies, count}, address))

SIMCUDA_EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode node, CUdeviceptr* address) {
  return driver_call<"cuGraphMemFreeNodeGetParams">({number(node)}, [&](ThreadState& thread) {
    std::uint64_t answer = 0;
    const cudaError_t error = api_free_node(thread, node, address == nullptr ? nullptr : &answer);
    if (error == cudaSuccess) *address = answer;
    return static_cast<CUresult>(error);
  });
}

SIMCUDA_DRIVER(cuGraphInstantiateWithFlags,
               (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
               (number(graph), flags), api_instantiate(thread, exec, graph, flags))

SIMCUDA_EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                                     CUDA_GRAPH_INSTANTIATE_PARAMS* parameters) {
  return driver_call<"cuGraphInstantiateWithParams">({number(graph)}, [&](ThreadState& thread) {
    if (parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    cudaGraphInstantiateParams wanted{};
    wanted.flags = parameters->flags;
    wanted.uploadStream = parameters->hUploadStream;
    const cudaError_t error = api_instantiate_with(thread, exec, graph, &wanted);
    parameters->hErrNode_out = wanted.errNode_out;
    parameters->result_out = static_cast<CUgraphInstantiateResult>(wanted.result_out);
    return static_cast<CUresult>(error);
  });
}

SIMCUDA_EXPORT CUresult cuGraphExecGetFlags(CUgraphExec exec, cuuint64_t* flags) {
  return driver_call<"cuGraphExecGetFlags">({number(exec)}, [&](ThreadState& thread) {
    unsigned long long answer = 0;
    const cudaError_t error = api_exec_flags(thread, exec, flags == nullptr ? nullptr : &answer);
    if (error == cudaSuccess) *flags = answer;
    return static_cast<CUresult>(error);
  });
}

// Defined under the name that the header gives it (cuGraphExecUpdate_v2).
SIMCUDA_EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph,
                                          CUgraphExecUpdateResultInfo* result) {
  return driver_call<"cuGraphExecUpdate">({number(exec), number(graph)}, [&](ThreadState& thread) {
    cudaGraphExecUpdateResultInfo answer{};
    const cudaError_t error =
        api_exec_update(thread, exec, graph, result == nullptr ? nullptr : &answer);
    if (result != nullptr) {
      *result = {};
      result->result = static_cast<CUgraphExecUpdateResult>(answer.result);
    }
    return static_cast<CUresult>(error);
  });
}

SIMCUDA_DRIVER(cuDeviceGetGraphMemAttribute,
               (CUdevice device, CUgraphMem_attribute attribute, void* value),
               (as_number(device), static_cast<std::uint64_t>(attribute)),
               api_get_graph_memory(thread, device, attribute, value))

SIMCUDA_DRIVER(cuDeviceSetGraphMemAttribute,
               (CUdevice device, CUgraphMem_attribute attribute, void* value),
               (as_number(device), static_cast<std::uint64_t>(attribute)),
               api_set_graph_memory(thread, device, attribute, value))

}  // namespace simcuda

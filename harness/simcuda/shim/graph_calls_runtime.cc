// The runtime's functions of captures and graphs whose types the driver names differently. In: what
// programs call. Out: what graph_api.h answers.
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/library.h"

namespace simcuda {

SIMCUDA_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return runtime_call<"cudaStreamBeginCapture">(
      {number(stream), static_cast<std::uint64_t>(mode)},
      [&](ThreadState& thread) { return api_begin_capture(thread, stream, mode); });
}

SIMCUDA_EXPORT cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                                         const cudaGraphNode_t* dependencies,
                                                         const cudaGraphEdgeData* edges,
                                                         size_t count, cudaStreamCaptureMode mode) {
  return runtime_call<"cudaStreamBeginCaptureToGraph">(
      {number(stream), number(graph), count, static_cast<std::uint64_t>(mode)},
      [&](ThreadState& thread) {
        return api_begin_capture_to_graph(thread, stream, {graph, dependencies, edges, count},
                                          mode);
      });
}

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

SIMCUDA_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return runtime_call<"cudaThreadExchangeStreamCaptureMode">({}, [&](ThreadState& thread) {
    int value = mode == nullptr ? 0 : *mode;
    const cudaError_t error = api_exchange_mode(thread, mode == nullptr ? nullptr : &value);
    if (error == cudaSuccess) *mode = static_cast<cudaStreamCaptureMode>(value);
    return error;
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return runtime_call<"cudaGraphNodeGetType">({number(node)}, [&](ThreadState& thread) {
    int answer = 0;
    const cudaError_t error = api_node_type(thread, node, type == nullptr ? nullptr : &answer);
    if (error == cudaSuccess) *type = static_cast<cudaGraphNodeType>(answer);
    return error;
  });
}

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

SIMCUDA_EXPORT cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                               cudaGraphNode_t* dependencies,
                                                               const cudaGraphEdgeData* /*edges*/,
                                                               size_t count, unsigned int flags) {
  return runtime_call<"cudaStreamUpdateCaptureDependencies">(
      {number(stream), count, flags}, [&](ThreadState& thread) {
        return api_update_dependencies(thread, stream, dependencies, count, flags);
      });
}

SIMCUDA_EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from,
                                             cudaGraphNode_t* to, cudaGraphEdgeData* edges,
                                             size_t* count) {
  return runtime_call<"cudaGraphGetEdges">({number(graph)}, [&](ThreadState& thread) {
    return api_graph_edges(thread, graph, from, to, edges, count);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node,
                                                        cudaGraphNode_t* dependencies,
                                                        cudaGraphEdgeData* edges, size_t* count) {
  return runtime_call<"cudaGraphNodeGetDependencies">({number(node)}, [&](ThreadState& thread) {
    return api_node_dependencies(thread, node, dependencies, edges, count);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node,
                                                          cudaGraphNode_t* dependents,
                                                          cudaGraphEdgeData* edges, size_t* count) {
  return runtime_call<"cudaGraphNodeGetDependentNodes">({number(node)}, [&](ThreadState& thread) {
    return api_node_dependents(thread, node, dependents, edges, count);
  });
}
#endif

SIMCUDA_EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    size_t count,
                                                    cudaMemAllocNodeParams* parameters) {
  return runtime_call<"cudaGraphAddMemAllocNode">({number(graph), count}, [&](ThreadState& thread) {
    return api_add_allocation_node(thread, {node, graph, dependencies, count}, parameters);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                   const cudaGraphNode_t* dependencies,
                                                   size_t count, void* pointer) {
  return runtime_call<"cudaGraphAddMemFreeNode">(
      {number(graph), count, number(pointer)}, [&](ThreadState& thread) {
        return api_add_free_node(thread, {node, graph, dependencies, count}, number(pointer));
      });
}

SIMCUDA_EXPORT cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                          cudaMemAllocNodeParams* parameters) {
  return runtime_call<"cudaGraphMemAllocNodeGetParams">({number(node)}, [&](ThreadState& thread) {
    return api_allocation_node(thread, node, parameters);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void* pointer) {
  return runtime_call<"cudaGraphMemFreeNodeGetParams">({number(node)}, [&](ThreadState& thread) {
    return api_free_node(thread, node, static_cast<std::uint64_t*>(pointer));
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                unsigned long long flags) {
  return runtime_call<"cudaGraphInstantiate">({number(graph), flags}, [&](ThreadState& thread) {
    return api_instantiate(thread, exec, graph, flags);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         unsigned long long flags) {
  return runtime_call<"cudaGraphInstantiateWithFlags">(
      {number(graph), flags},
      [&](ThreadState& thread) { return api_instantiate(thread, exec, graph, flags); });
}

SIMCUDA_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                          cudaGraphInstantiateParams* parameters) {
  return runtime_call<"cudaGraphInstantiateWithParams">({number(graph)}, [&](ThreadState& thread) {
    return api_instantiate_with(thread, exec, graph, parameters);
  });
}

SIMCUDA_EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long* flags) {
  return runtime_call<"cudaGraphExecGetFlags">(
      {number(exec)}, [&](ThreadState& thread) { return api_exec_flags(thread, exec, flags); });
}

SIMCUDA_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                               cudaGraphExecUpdateResultInfo* result) {
  return runtime_call<"cudaGraphExecUpdate">(
      {number(exec), number(graph)},
      [&](ThreadState& thread) { return api_exec_update(thread, exec, graph, result); });
}

SIMCUDA_EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
                                                          cudaGraphMemAttributeType attribute,
                                                          void* value) {
  return runtime_call<"cudaDeviceGetGraphMemAttribute">(
      {as_number(device), static_cast<std::uint64_t>(attribute)},
      [&](ThreadState& thread) { return api_get_graph_memory(thread, device, attribute, value); });
}

SIMCUDA_EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device,
                                                          cudaGraphMemAttributeType attribute,
                                                          void* value) {
  return runtime_call<"cudaDeviceSetGraphMemAttribute">(
      {as_number(device), static_cast<std::uint64_t>(attribute)},
      [&](ThreadState& thread) { return api_set_graph_memory(thread, device, attribute, value); });
}

}  // namespace simcuda

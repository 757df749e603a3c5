// Nodes of work that a program adds to a graph itself. In: a place in the graph, and what a call in
// a stream would be given. Out: nodes as a capture makes them (memory_copy.h, kernel_models.h).
#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

MadeWork registered_kernel_work(ThreadState& thread, const cudaKernelNodeParams* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  const std::string name = registered_kernel_name(parameters->func);
  return name.empty() ? MadeWork{cudaErrorInvalidDeviceFunction}
                      : kernel_work(thread, name, parameters->kernelParams);
}

MadeWork loaded_kernel_work(ThreadState& thread, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  const std::optional<LoadedKernel> kernel = kernel_of(parameters->func);
  return kernel ? kernel_work(thread, kernel->facts.name, parameters->kernelParams)
                : MadeWork{cudaErrorInvalidResourceHandle};
}

// The runtime's and the driver's parameters have members of the same names but the target.
template <class Parameters>
MadeWork fill_of(const Parameters& parameters, void* target) {
  const std::size_t element_bytes = parameters.elementSize;
  if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4) {
    return {cudaErrorInvalidValue};
  }
  CopyShape shape{.to_pitch_bytes = parameters.pitch,
                  .from_pitch_bytes = parameters.pitch,
                  .width_bytes = parameters.width * element_bytes,
                  .row_count = parameters.height};
  if (shape.row_count <= 1) shape.to_pitch_bytes = shape.width_bytes;
  if (target == nullptr || shape.width_bytes == 0 || shape.row_count == 0 ||
      shape.to_pitch_bytes < shape.width_bytes) {
    return {cudaErrorInvalidValue};
  }
  return fill_work(target, {.value = parameters.value, .element_bytes = element_bytes}, shape);
}

template <class Parameters>
MadeWork host_function_of(const Parameters* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return {cudaErrorInvalidValue};
  return {.work = {.kind = NodeKind::HostFunction,
                   .type = cudaGraphNodeTypeHost,
                   .function = parameters->fn,
                   .data = parameters->userData}};
}

MadeWork row_copy(void* to, const void* from, std::size_t size_bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return {cudaErrorInvalidMemcpyDirection};
  }
  if (to == nullptr || from == nullptr || size_bytes == 0) return {cudaErrorInvalidValue};
  return copy_work(to, from, line(size_bytes), kind);
}

}  // namespace

SIMCUDA_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, size_t count,
                                                  const cudaKernelNodeParams* parameters) {
  return runtime_call<"cudaGraphAddKernelNode">({number(graph), count}, [&](ThreadState& thread) {
    return api_add_work_node(thread, {node, graph, dependencies, count},
                             registered_kernel_work(thread, parameters));
  });
}
SIMCUDA_DRIVER(cuGraphAddKernelNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                const CUDA_KERNEL_NODE_PARAMS* parameters),
               (number(graph), count),
               api_add_work_node(thread, {node, graph, dependencies, count},
                                 loaded_kernel_work(thread, parameters)))

SIMCUDA_EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                                    const cudaGraphNode_t* dependencies,
                                                    size_t count, void* to, const void* from,
                                                    size_t size_bytes, cudaMemcpyKind kind) {
  return runtime_call<"cudaGraphAddMemcpyNode1D">(
      {number(graph), count, number(to), number(from), size_bytes}, [&](ThreadState& thread) {
        return api_add_work_node(thread, {node, graph, dependencies, count},
                                 row_copy(to, from, size_bytes, kind));
      });
}

SIMCUDA_EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                  const cudaGraphNode_t* dependencies, size_t count,
                                                  const cudaMemsetParams* parameters) {
  return runtime_call<"cudaGraphAddMemsetNode">({number(graph), count}, [&](ThreadState& thread) {
    return api_add_work_node(thread, {node, graph, dependencies, count},
                             parameters == nullptr ? MadeWork{cudaErrorInvalidValue}
                                                   : fill_of(*parameters, parameters->dst));
  });
}
SIMCUDA_DRIVER(cuGraphAddMemsetNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                const CUDA_MEMSET_NODE_PARAMS* parameters, CUcontext /*context*/),
               (number(graph), count),
               api_add_work_node(thread, {node, graph, dependencies, count},
                                 parameters == nullptr
                                     ? MadeWork{cudaErrorInvalidValue}
                                     : fill_of(*parameters,
                                               reinterpret_cast<void*>(parameters->dst))))

SIMCUDA_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* dependencies, size_t count,
                                                const cudaHostNodeParams* parameters) {
  return runtime_call<"cudaGraphAddHostNode">({number(graph), count}, [&](ThreadState& thread) {
    return api_add_work_node(thread, {node, graph, dependencies, count},
                             host_function_of(parameters));
  });
}
SIMCUDA_DRIVER(cuGraphAddHostNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies, size_t count,
                const CUDA_HOST_NODE_PARAMS* parameters),
               (number(graph), count),
               api_add_work_node(thread, {node, graph, dependencies, count},
                                 host_function_of(parameters)))

}  // namespace simcuda

// The driver's functions of nodes that take every kind in one structure. In: a kind and its
// parameters. Out: what the functions of that kind answer.
#include "harness/simcuda/shim/call.h"

#if CUDA_VERSION >= 13000

#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/node_work.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t refuse_kind(ThreadState& thread) {
  return explain(thread, cudaErrorNotSupported, "simcuda has no nodes of that kind");
}

// Of the kinds that are work; NotSupported of others.
MadeWork work_of(ThreadState& thread, const CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return {cudaErrorInvalidValue};
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return node_work(thread,
                       reinterpret_cast<const CUDA_KERNEL_NODE_PARAMS*>(&parameters->kernel));
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return parameters->memcpy.flags == 0 ? node_work(thread, &parameters->memcpy.copyParams)
                                           : MadeWork{cudaErrorInvalidValue};
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return node_work(thread,
                       reinterpret_cast<const CUDA_MEMSET_NODE_PARAMS*>(&parameters->memset));
    case CU_GRAPH_NODE_TYPE_HOST:
      return node_work(thread, reinterpret_cast<const CUDA_HOST_NODE_PARAMS*>(&parameters->host));
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return child_work(thread, parameters->graph.graph);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return event_work(parameters->eventRecord.event, cudaGraphNodeTypeEventRecord);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return event_work(parameters->eventWait.event, cudaGraphNodeTypeWaitEvent);
    default:
      return {refuse_kind(thread)};
  }
}

cudaError_t add(ThreadState& thread, NodePlace place, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return api_add_empty_node(place);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return api_add_allocation_node(thread, place,
                                     reinterpret_cast<cudaMemAllocNodeParams*>(&parameters->alloc));
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return api_add_free_node(place, parameters->free.dptr);
    default:
      break;
  }
  const cudaError_t error = api_add_work_node(thread, place, work_of(thread, parameters));
  const bool is_moved = parameters->type == CU_GRAPH_NODE_TYPE_GRAPH &&
                        parameters->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (error == cudaSuccess && is_moved) own_child(place.graph, parameters->graph.graph);
  return error;
}

// Members of the same names in the same places.
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v3) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(sizeof(CUDA_HOST_NODE_PARAMS_v2) == sizeof(CUDA_HOST_NODE_PARAMS));
static_assert(offsetof(CUDA_MEMSET_NODE_PARAMS_v2, height) ==
              offsetof(CUDA_MEMSET_NODE_PARAMS, height));
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2) == sizeof(cudaMemAllocNodeParams));

}  // namespace

SIMCUDA_DRIVER(cuGraphAddNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies,
                const CUgraphEdgeData* /*edges*/, size_t count, CUgraphNodeParams* parameters),
               (number(graph), count), add(thread, {node, graph, dependencies, count}, parameters))
SIMCUDA_DRIVER(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams* parameters),
               (number(node)), api_set_node_work(thread, node, work_of(thread, parameters)))
SIMCUDA_DRIVER(cuGraphExecNodeSetParams,
               (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters),
               (number(exec), number(node)),
               api_exec_set_work(thread, exec, node, work_of(thread, parameters)))

}  // namespace simcuda

#endif

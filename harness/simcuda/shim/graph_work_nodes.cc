// Nodes of work that a program adds to a graph itself, changes, and asks about. In: a place in the
// graph, and what a call in a stream would be given (node_work.h). Out: what graph_api.h answers.
#include <memory>

#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/node_work.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

// What the node does, in the form that the program asks for.
template <class Parameters>
cudaError_t give_node(cudaGraphNode_t node, cudaGraphNodeType type, Parameters* parameters) {
  const std::shared_ptr<const NodeWork> work = api_node_work(node, type);
  if (work == nullptr || parameters == nullptr) return cudaErrorInvalidValue;
  give(*work, parameters);
  return cudaSuccess;
}

}  // namespace

// ---- kernels, copies, fills, host functions

#define SIMCUDA_ADDED_TO \
  cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count
// One kind is added to a graph, changed in it, and changed in what was instantiated. The driver's
// functions may have a parameter more, a context.
#define SIMCUDA_CHANGED_NODES(kind, runtime_type, driver_type, ...)                               \
  SIMCUDA_RUNTIME(cudaGraphAdd##kind##Node, (SIMCUDA_ADDED_TO, const runtime_type* parameters),   \
                  (number(graph), count),                                                         \
                  api_add_work_node(thread, {node, graph, dependencies, count},                   \
                                    node_work(thread, parameters)))                               \
  SIMCUDA_DRIVER(cuGraphAdd##kind##Node,                                                          \
                 (SIMCUDA_ADDED_TO, const driver_type* parameters __VA_OPT__(, ) __VA_ARGS__),    \
                 (number(graph), count),                                                          \
                 api_add_work_node(thread, {node, graph, dependencies, count},                    \
                                   node_work(thread, parameters)))                                \
  SIMCUDA_RUNTIME(cudaGraph##kind##NodeSetParams,                                                 \
                  (cudaGraphNode_t node, const runtime_type* parameters), (number(node)),         \
                  api_set_node_work(thread, node, node_work(thread, parameters)))                 \
  SIMCUDA_DRIVER(cuGraph##kind##NodeSetParams, (CUgraphNode node, const driver_type* parameters), \
                 (number(node)), api_set_node_work(thread, node, node_work(thread, parameters)))  \
  SIMCUDA_RUNTIME(cudaGraphExec##kind##NodeSetParams,                                             \
                  (cudaGraphExec_t exec, cudaGraphNode_t node, const runtime_type* parameters),   \
                  (number(exec), number(node)),                                                   \
                  api_exec_set_work(thread, exec, node, node_work(thread, parameters)))           \
  SIMCUDA_DRIVER(cuGraphExec##kind##NodeSetParams,                                                \
                 (CUgraphExec exec, CUgraphNode node,                                             \
                  const driver_type* parameters __VA_OPT__(, ) __VA_ARGS__),                      \
                 (number(exec), number(node)),                                                    \
                 api_exec_set_work(thread, exec, node, node_work(thread, parameters)))
#define SIMCUDA_ASKED_NODES(kind, runtime_type, driver_type)                                 \
  SIMCUDA_RUNTIME(cudaGraph##kind##NodeGetParams,                                            \
                  (cudaGraphNode_t node, runtime_type * parameters), (number(node)),         \
                  give_node(node, cudaGraphNodeType##kind, parameters))                      \
  SIMCUDA_DRIVER(cuGraph##kind##NodeGetParams, (CUgraphNode node, driver_type * parameters), \
                 (number(node)), give_node(node, cudaGraphNodeType##kind, parameters))

SIMCUDA_CHANGED_NODES(Kernel, cudaKernelNodeParams, CUDA_KERNEL_NODE_PARAMS)
SIMCUDA_CHANGED_NODES(Memcpy, cudaMemcpy3DParms, CUDA_MEMCPY3D, CUcontext /*context*/)
SIMCUDA_CHANGED_NODES(Memset, cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, CUcontext /*context*/)
SIMCUDA_CHANGED_NODES(Host, cudaHostNodeParams, CUDA_HOST_NODE_PARAMS)
// A kernel's arguments are not kept as CUDA keeps them, so that nobody can ask for them.
SIMCUDA_ASKED_NODES(Memcpy, cudaMemcpy3DParms, CUDA_MEMCPY3D)
SIMCUDA_ASKED_NODES(Memset, cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS)
SIMCUDA_ASKED_NODES(Host, cudaHostNodeParams, CUDA_HOST_NODE_PARAMS)

SIMCUDA_RUNTIME(cudaGraphAddMemcpyNode1D,
                (SIMCUDA_ADDED_TO, void* to, const void* from, size_t size_bytes,
                 cudaMemcpyKind kind),
                (number(graph), count, number(to), number(from), size_bytes),
                api_add_work_node(thread, {node, graph, dependencies, count},
                                  row_work(to, from, size_bytes, kind)))
SIMCUDA_RUNTIME(cudaGraphMemcpyNodeSetParams1D,
                (cudaGraphNode_t node, void* to, const void* from, size_t size_bytes,
                 cudaMemcpyKind kind),
                (number(node), number(to), number(from), size_bytes),
                api_set_node_work(thread, node, row_work(to, from, size_bytes, kind)))
SIMCUDA_RUNTIME(cudaGraphExecMemcpyNodeSetParams1D,
                (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                 size_t size_bytes, cudaMemcpyKind kind),
                (number(exec), number(node), number(to), number(from), size_bytes),
                api_exec_set_work(thread, exec, node, row_work(to, from, size_bytes, kind)))

// ---- events, graphs

#define SIMCUDA_EVENT_NODES(kind, type)                                                       \
  SIMCUDA_TWINS(                                                                              \
      cudaGraphAddEvent##kind##Node, cuGraphAddEvent##kind##Node,                             \
      (SIMCUDA_ADDED_TO, cudaEvent_t event), (number(graph), count, number(event)),           \
      api_add_work_node(thread, {node, graph, dependencies, count}, event_work(event, type))) \
  SIMCUDA_TWINS(cudaGraphEvent##kind##NodeSetEvent, cuGraphEvent##kind##NodeSetEvent,         \
                (cudaGraphNode_t node, cudaEvent_t event), (number(node), number(event)),     \
                api_set_node_work(thread, node, event_work(event, type)))                     \
  SIMCUDA_TWINS(cudaGraphExecEvent##kind##NodeSetEvent, cuGraphExecEvent##kind##NodeSetEvent, \
                (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),              \
                (number(exec), number(node), number(event)),                                  \
                api_exec_set_work(thread, exec, node, event_work(event, type)))               \
  SIMCUDA_TWINS(cudaGraphEvent##kind##NodeGetEvent, cuGraphEvent##kind##NodeGetEvent,         \
                (cudaGraphNode_t node, cudaEvent_t * event), (number(node)),                  \
                give_node(node, type, event))

SIMCUDA_EVENT_NODES(Record, cudaGraphNodeTypeEventRecord)
SIMCUDA_EVENT_NODES(Wait, cudaGraphNodeTypeWaitEvent)

SIMCUDA_TWINS(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode,
              (SIMCUDA_ADDED_TO, cudaGraph_t child), (number(graph), count, number(child)),
              api_add_work_node(thread, {node, graph, dependencies, count},
                                child_work(thread, child)))
SIMCUDA_TWINS(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
              (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child),
              (number(exec), number(node), number(child)),
              api_exec_set_work(thread, exec, node, child_work(thread, child)))

}  // namespace simcuda

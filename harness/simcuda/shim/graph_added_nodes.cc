// Nodes that a program adds to a graph itself, changes, and asks about. In: a place in the graph,
// and what a call in a stream would be given (node_work.h). Out: nodes, errors.
#include <memory>
#include <unordered_set>
#include <utility>

#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/node_work.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct NodePlace {
  cudaGraphNode_t* node = nullptr;  // out
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t dependency_count = 0;
};

// Where a node is to be put; `graph` null where the program names something wrong.
struct ResolvedPlace {
  SimGraph* graph = nullptr;
  std::vector<SimGraphNode*> dependencies = {};
};
ResolvedPlace resolve_place(const NodePlace& place) {
  SimGraph* const graph = resolve_graph(place.graph);
  if (place.node == nullptr || graph == nullptr) return {};
  auto nodes = nodes_in(*graph, place.dependencies, place.dependency_count);
  if (!nodes) return {};
  const std::unordered_set<SimGraphNode*> unique(nodes->begin(), nodes->end());
  if (unique.size() != nodes->size()) return {};
  return {.graph = graph, .dependencies = std::move(*nodes)};
}

// Whether the graph may have work of the device.
cudaError_t check_device(ThreadState& thread, const SimGraph& graph,
                         const SimulatedDevice& device) {
  if (graph.device == nullptr || graph.device == &device) return cudaSuccess;
  return explain(thread, cudaErrorNotSupported, "simcuda: a graph has work on two devices");
}

cudaError_t add_empty(NodePlace place) {
  const std::lock_guard lock(graph_mutex());
  ResolvedPlace resolved = resolve_place(place);
  if (resolved.graph == nullptr) return cudaErrorInvalidValue;
  SimGraphNode* const node = add_node(*resolved.graph, std::move(resolved.dependencies), {});
  if (node == nullptr) return cudaErrorMemoryAllocation;
  *place.node = handle_of<cudaGraphNode_t>(node);
  return cudaSuccess;
}

// A kernel, copy, fill or host function on the calling thread's device. NotSupported where the
// graph's work is another device's.
cudaError_t add_work(ThreadState& thread, NodePlace place, MadeWork made) {
  const std::lock_guard lock(graph_mutex());
  ResolvedPlace resolved = resolve_place(place);
  SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  if (resolved.graph == nullptr) return cudaErrorInvalidValue;
  if (made.error != cudaSuccess) return made.error;
  if (const cudaError_t error = check_device(thread, *resolved.graph, *device);
      error != cudaSuccess)
    return error;
  resolved.graph->device = device;
  SimGraphNode* const node =
      add_node(*resolved.graph, std::move(resolved.dependencies), std::move(made.work));
  if (node == nullptr) return cudaErrorMemoryAllocation;
  *place.node = handle_of<cudaGraphNode_t>(node);
  return cudaSuccess;
}

// A graph as a node, as it is now: no later call on it changes the node. InvalidValue where it has
// a circle; check_child() says what else is refused.
MadeWork child_work(ThreadState& thread, cudaGraph_t child) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(child);
  if (found == nullptr) return {cudaErrorInvalidValue};
  std::shared_ptr<const GraphPlan> plan = make_plan(*found);
  if (plan == nullptr) return {cudaErrorInvalidValue};
  if (const cudaError_t error = check_child(thread, *plan, current_device(thread));
      error != cudaSuccess) {
    return {error};
  }
  return {
      .work = {.kind = NodeKind::Child, .type = cudaGraphNodeTypeGraph, .child = std::move(plan)}};
}

// Other work of the same kind.
cudaError_t set_work(ThreadState& thread, cudaGraphNode_t node, MadeWork made) {
  const std::lock_guard lock(graph_mutex());
  SimGraphNode* const found = resolve_node(node);
  SimulatedDevice* const device = current_device(thread);
  if (device == nullptr) return cudaErrorNoDevice;
  if (found == nullptr) return cudaErrorInvalidValue;
  if (made.error != cudaSuccess) return made.error;
  if (found->work->type != made.work.type) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_device(thread, *found->graph, *device); error != cudaSuccess)
    return error;
  found->work = std::make_shared<const NodeWork>(std::move(made.work));
  return cudaSuccess;
}

cudaError_t add_allocation_node(ThreadState& thread, NodePlace place,
                                cudaMemAllocNodeParams* parameters) {
  const std::lock_guard lock(graph_mutex());
  ResolvedPlace resolved = resolve_place(place);
  if (resolved.graph == nullptr || parameters == nullptr ||
      parameters->poolProps.allocType != cudaMemAllocationTypePinned ||
      parameters->poolProps.location.type != cudaMemLocationTypeDevice ||
      parameters->poolProps.handleTypes != cudaMemHandleTypeNone ||
      parameters->accessDescCount > static_cast<std::size_t>(device_count())) {
    return cudaErrorInvalidValue;
  }
  SimulatedDevice* const device = device_at(parameters->poolProps.location.id);
  if (device == nullptr || parameters->bytesize == 0) return cudaErrorInvalidValue;
  if (const cudaError_t error = check_device(thread, *resolved.graph, *device);
      error != cudaSuccess)
    return error;
  const GraphAllocationResult added = add_allocation(
      *resolved.graph, *device, std::move(resolved.dependencies), parameters->bytesize);
  if (added.error != cudaSuccess) return added.error;
  parameters->dptr = reinterpret_cast<void*>(added.address);
  *place.node = handle_of<cudaGraphNode_t>(added.node);
  return cudaSuccess;
}

cudaError_t add_free_node(NodePlace place, std::uint64_t address) {
  const std::lock_guard lock(graph_mutex());
  ResolvedPlace resolved = resolve_place(place);
  SimulatedDevice* const device = device_of_address(address);
  if (resolved.graph == nullptr || device == nullptr ||
      (resolved.graph->device != nullptr && resolved.graph->device != device)) {
    return cudaErrorInvalidValue;
  }
  const GraphAllocationResult added =
      add_free(*resolved.graph, *device, std::move(resolved.dependencies), address);
  if (added.error != cudaSuccess) return added.error;
  *place.node = handle_of<cudaGraphNode_t>(added.node);
  return cudaSuccess;
}

// What the node does, in the form that the program asks for.
template <class Parameters>
cudaError_t give_node(cudaGraphNode_t node, cudaGraphNodeType type, Parameters* parameters) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || found->work->type != type || parameters == nullptr) {
    return cudaErrorInvalidValue;
  }
  give(*found->work, parameters);
  return cudaSuccess;
}

cudaError_t give_allocation_node(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || parameters == nullptr || found->work->kind != NodeKind::Allocate) {
    return cudaErrorInvalidValue;
  }
  *parameters = {};
  parameters->poolProps.allocType = cudaMemAllocationTypePinned;
  parameters->poolProps.location.type = cudaMemLocationTypeDevice;
  parameters->poolProps.location.id = found->graph->device->index;
  parameters->bytesize = found->work->block.size_bytes();
  parameters->dptr = reinterpret_cast<void*>(found->work->block.lo);
  return cudaSuccess;
}

cudaError_t give_free_node(cudaGraphNode_t node, std::uint64_t* address) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || address == nullptr || found->work->kind != NodeKind::Free) {
    return cudaErrorInvalidValue;
  }
  *address = found->work->block.lo;
  return cudaSuccess;
}

#if CUDA_VERSION >= 13000
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
      return node_work(thread, reinterpret_cast<const cudaMemsetParams*>(&parameters->memset));
    case CU_GRAPH_NODE_TYPE_HOST:
      return node_work(thread, reinterpret_cast<const cudaHostNodeParams*>(&parameters->host));
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

// The child ends with the parent, and not by itself.
void own_child(cudaGraph_t parent, cudaGraph_t child) {
  const std::lock_guard lock(graph_mutex());
  SimGraph* const owner = resolve_graph(parent);
  SimGraph* const found = resolve_graph(child);
  if (owner == nullptr || found == nullptr || found == owner || found->is_moved) return;
  found->is_moved = true;
  owner->moved_children.push_back(found);
}

cudaError_t add_of_kind(ThreadState& thread, NodePlace place, CUgraphNodeParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  switch (parameters->type) {
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return add_empty(place);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return add_allocation_node(thread, place,
                                 reinterpret_cast<cudaMemAllocNodeParams*>(&parameters->alloc));
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return add_free_node(place, parameters->free.dptr);
    default:
      break;
  }
  const cudaError_t error = add_work(thread, place, work_of(thread, parameters));
  const bool is_moved = parameters->type == CU_GRAPH_NODE_TYPE_GRAPH &&
                        parameters->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  if (error == cudaSuccess && is_moved) own_child(place.graph, parameters->graph.graph);
  return error;
}

// Members of the same names in the same places.
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS_v3) == sizeof(CUDA_KERNEL_NODE_PARAMS));
static_assert(sizeof(CUDA_HOST_NODE_PARAMS_v2) == sizeof(cudaHostNodeParams));
static_assert(offsetof(CUDA_MEMSET_NODE_PARAMS_v2, height) == offsetof(cudaMemsetParams, height));
static_assert(sizeof(CUDA_MEM_ALLOC_NODE_PARAMS_v2) == sizeof(cudaMemAllocNodeParams));
#endif

}  // namespace

// ---- kernels, copies, fills, host functions

#define SIMCUDA_ADDED_TO \
  cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count
// One kind is added to a graph, changed in it, and changed in what was instantiated. `known_type`:
// the driver's structure, or the runtime's where the two are alike. The driver's functions may have
// a parameter more, a context.
#define SIMCUDA_CHANGED_NODES(kind, runtime_type, driver_type, known_type, ...)                 \
  SIMCUDA_RUNTIME(                                                                              \
      cudaGraphAdd##kind##Node, (SIMCUDA_ADDED_TO, const runtime_type* parameters),             \
      (number(graph), count),                                                                   \
      add_work(thread, {node, graph, dependencies, count}, node_work(thread, parameters)))      \
  SIMCUDA_DRIVER(cuGraphAdd##kind##Node,                                                        \
                 (SIMCUDA_ADDED_TO, const driver_type* parameters __VA_OPT__(, ) __VA_ARGS__),  \
                 (number(graph), count),                                                        \
                 add_work(thread, {node, graph, dependencies, count},                           \
                          node_work(thread, as_runtime<const known_type*>(parameters))))        \
  SIMCUDA_RUNTIME(cudaGraph##kind##NodeSetParams,                                               \
                  (cudaGraphNode_t node, const runtime_type* parameters), (number(node)),       \
                  set_work(thread, node, node_work(thread, parameters)))                        \
  SIMCUDA_DRIVER(                                                                               \
      cuGraph##kind##NodeSetParams, (CUgraphNode node, const driver_type* parameters),          \
      (number(node)),                                                                           \
      set_work(thread, node, node_work(thread, as_runtime<const known_type*>(parameters))))     \
  SIMCUDA_RUNTIME(cudaGraphExec##kind##NodeSetParams,                                           \
                  (cudaGraphExec_t exec, cudaGraphNode_t node, const runtime_type* parameters), \
                  (number(exec), number(node)),                                                 \
                  set_exec_work(thread, exec, node, node_work(thread, parameters)))             \
  SIMCUDA_DRIVER(cuGraphExec##kind##NodeSetParams,                                              \
                 (CUgraphExec exec, CUgraphNode node,                                           \
                  const driver_type* parameters __VA_OPT__(, ) __VA_ARGS__),                    \
                 (number(exec), number(node)),                                                  \
                 set_exec_work(thread, exec, node,                                              \
                               node_work(thread, as_runtime<const known_type*>(parameters))))
#define SIMCUDA_ASKED_NODES(kind, runtime_type, driver_type, known_type)                     \
  SIMCUDA_RUNTIME(cudaGraph##kind##NodeGetParams,                                            \
                  (cudaGraphNode_t node, runtime_type * parameters), (number(node)),         \
                  give_node(node, cudaGraphNodeType##kind, parameters))                      \
  SIMCUDA_DRIVER(cuGraph##kind##NodeGetParams, (CUgraphNode node, driver_type * parameters), \
                 (number(node)),                                                             \
                 give_node(node, cudaGraphNodeType##kind, as_runtime<known_type*>(parameters)))

SIMCUDA_CHANGED_NODES(Kernel, cudaKernelNodeParams, CUDA_KERNEL_NODE_PARAMS,
                      CUDA_KERNEL_NODE_PARAMS)
SIMCUDA_CHANGED_NODES(Memcpy, cudaMemcpy3DParms, CUDA_MEMCPY3D, CUDA_MEMCPY3D,
                      CUcontext /*context*/)
SIMCUDA_CHANGED_NODES(Memset, cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams,
                      CUcontext /*context*/)
SIMCUDA_CHANGED_NODES(Host, cudaHostNodeParams, CUDA_HOST_NODE_PARAMS, cudaHostNodeParams)
// A kernel's arguments are not kept as CUDA keeps them, so that nobody can ask for them.
SIMCUDA_ASKED_NODES(Memcpy, cudaMemcpy3DParms, CUDA_MEMCPY3D, CUDA_MEMCPY3D)
SIMCUDA_ASKED_NODES(Memset, cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS, cudaMemsetParams)
SIMCUDA_ASKED_NODES(Host, cudaHostNodeParams, CUDA_HOST_NODE_PARAMS, cudaHostNodeParams)

SIMCUDA_RUNTIME(cudaGraphAddMemcpyNode1D,
                (SIMCUDA_ADDED_TO, void* to, const void* from, size_t size_bytes,
                 cudaMemcpyKind kind),
                (number(graph), count, number(to), number(from), size_bytes),
                add_work(thread, {node, graph, dependencies, count},
                         row_work(to, from, size_bytes, kind)))
SIMCUDA_RUNTIME(cudaGraphMemcpyNodeSetParams1D,
                (cudaGraphNode_t node, void* to, const void* from, size_t size_bytes,
                 cudaMemcpyKind kind),
                (number(node), number(to), number(from), size_bytes),
                set_work(thread, node, row_work(to, from, size_bytes, kind)))
SIMCUDA_RUNTIME(cudaGraphExecMemcpyNodeSetParams1D,
                (cudaGraphExec_t exec, cudaGraphNode_t node, void* to, const void* from,
                 size_t size_bytes, cudaMemcpyKind kind),
                (number(exec), number(node), number(to), number(from), size_bytes),
                set_exec_work(thread, exec, node, row_work(to, from, size_bytes, kind)))

// ---- events, graphs

#define SIMCUDA_EVENT_NODES(kind, type)                                                        \
  SIMCUDA_TWINS(cudaGraphAddEvent##kind##Node, cuGraphAddEvent##kind##Node,                    \
                (SIMCUDA_ADDED_TO, cudaEvent_t event), (number(graph), count, number(event)),  \
                add_work(thread, {node, graph, dependencies, count}, event_work(event, type))) \
  SIMCUDA_TWINS(cudaGraphEvent##kind##NodeSetEvent, cuGraphEvent##kind##NodeSetEvent,          \
                (cudaGraphNode_t node, cudaEvent_t event), (number(node), number(event)),      \
                set_work(thread, node, event_work(event, type)))                               \
  SIMCUDA_TWINS(cudaGraphExecEvent##kind##NodeSetEvent, cuGraphExecEvent##kind##NodeSetEvent,  \
                (cudaGraphExec_t exec, cudaGraphNode_t node, cudaEvent_t event),               \
                (number(exec), number(node), number(event)),                                   \
                set_exec_work(thread, exec, node, event_work(event, type)))                    \
  SIMCUDA_TWINS(cudaGraphEvent##kind##NodeGetEvent, cuGraphEvent##kind##NodeGetEvent,          \
                (cudaGraphNode_t node, cudaEvent_t * event), (number(node)),                   \
                give_node(node, type, event))

SIMCUDA_EVENT_NODES(Record, cudaGraphNodeTypeEventRecord)
SIMCUDA_EVENT_NODES(Wait, cudaGraphNodeTypeWaitEvent)

SIMCUDA_TWINS(cudaGraphAddChildGraphNode, cuGraphAddChildGraphNode,
              (SIMCUDA_ADDED_TO, cudaGraph_t child), (number(graph), count, number(child)),
              add_work(thread, {node, graph, dependencies, count}, child_work(thread, child)))
SIMCUDA_TWINS(cudaGraphExecChildGraphNodeSetParams, cuGraphExecChildGraphNodeSetParams,
              (cudaGraphExec_t exec, cudaGraphNode_t node, cudaGraph_t child),
              (number(exec), number(node), number(child)),
              set_exec_work(thread, exec, node, child_work(thread, child)))

// ---- nothing, memory

SIMCUDA_TWINS(cudaGraphAddEmptyNode, cuGraphAddEmptyNode, (SIMCUDA_ADDED_TO),
              (number(graph), count), add_empty({node, graph, dependencies, count}))
SIMCUDA_PAIR(cudaGraphAddMemAllocNode, (SIMCUDA_ADDED_TO, cudaMemAllocNodeParams* parameters),
             cuGraphAddMemAllocNode, (SIMCUDA_ADDED_TO, CUDA_MEM_ALLOC_NODE_PARAMS* parameters),
             (number(graph), count),
             add_allocation_node(thread, {node, graph, dependencies, count},
                                 as_runtime<cudaMemAllocNodeParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphMemAllocNodeGetParams,
             (cudaGraphNode_t node, cudaMemAllocNodeParams* parameters),
             cuGraphMemAllocNodeGetParams,
             (CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS* parameters), (number(node)),
             give_allocation_node(node, as_runtime<cudaMemAllocNodeParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphAddMemFreeNode, (SIMCUDA_ADDED_TO, void* pointer), cuGraphAddMemFreeNode,
             (SIMCUDA_ADDED_TO, CUdeviceptr pointer), (number(graph), count, number(pointer)),
             add_free_node({node, graph, dependencies, count}, number(pointer)))
SIMCUDA_PAIR(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t node, void* pointer),
             cuGraphMemFreeNodeGetParams, (CUgraphNode node, CUdeviceptr* pointer), (number(node)),
             give_free_node(node, as_runtime<std::uint64_t*>(pointer)))

// ---- every kind in one structure

#if CUDA_VERSION >= 13000
SIMCUDA_DRIVER(cuGraphAddNode,
               (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies,
                const CUgraphEdgeData* /*edges*/, size_t count, CUgraphNodeParams* parameters),
               (number(graph), count),
               add_of_kind(thread, {node, graph, dependencies, count}, parameters))
SIMCUDA_DRIVER(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams* parameters),
               (number(node)), set_work(thread, node, work_of(thread, parameters)))
SIMCUDA_DRIVER(cuGraphExecNodeSetParams,
               (CUgraphExec exec, CUgraphNode node, CUgraphNodeParams* parameters),
               (number(exec), number(node)),
               set_exec_work(thread, exec, node, work_of(thread, parameters)))
#endif

}  // namespace simcuda

// What the runtime's and the driver's functions of graphs share: both have the same numbers for
// errors, modes, kinds and attributes. In: what the program passes, right or wrong. Out: the error.
#pragma once

#include "harness/simcuda/shim/graph.h"

namespace simcuda {

// ---- capture
[[nodiscard]] cudaError_t api_begin_capture(ThreadState& thread, cudaStream_t stream,
                                            cudaStreamCaptureMode mode);
struct CaptureTarget {
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  const void* edges = nullptr;  // not looked at: only plain edges are known
  std::size_t dependency_count = 0;
};
[[nodiscard]] cudaError_t api_begin_capture_to_graph(ThreadState& thread, cudaStream_t stream,
                                                     CaptureTarget target,
                                                     cudaStreamCaptureMode mode);
[[nodiscard]] cudaError_t api_end_capture(ThreadState& thread, cudaStream_t stream,
                                          cudaGraph_t* graph);
// Where nothing is captured, nothing but the status is written. Null: not asked for.
struct CaptureAnswer {
  int* status = nullptr;
  unsigned long long* id = nullptr;
  cudaGraph_t* graph = nullptr;
  const cudaGraphNode_t** dependencies = nullptr;
  const cudaGraphEdgeData** edges = nullptr;
  std::size_t* dependency_count = nullptr;
};
[[nodiscard]] cudaError_t api_capture_info(ThreadState& thread, cudaStream_t stream,
                                           CaptureAnswer answer);
[[nodiscard]] cudaError_t api_exchange_mode(ThreadState& thread, int* mode);
[[nodiscard]] cudaError_t api_update_dependencies(ThreadState& thread, cudaStream_t stream,
                                                  const cudaGraphNode_t* dependencies,
                                                  std::size_t count, unsigned flags);

// ---- graphs and nodes
[[nodiscard]] cudaError_t api_graph_create(cudaGraph_t* graph, unsigned flags);
[[nodiscard]] cudaError_t api_graph_destroy(cudaGraph_t graph);
[[nodiscard]] cudaError_t api_graph_clone(cudaGraph_t* clone, cudaGraph_t original);
// Lists as CUDA gives them: `list` null asks for the number alone.
[[nodiscard]] cudaError_t api_graph_nodes(cudaGraph_t graph, cudaGraphNode_t* list,
                                          std::size_t* count);
[[nodiscard]] cudaError_t api_graph_roots(cudaGraph_t graph, cudaGraphNode_t* list,
                                          std::size_t* count);
[[nodiscard]] cudaError_t api_graph_edges(cudaGraph_t graph, cudaGraphNode_t* from,
                                          cudaGraphNode_t* to, void* edges, std::size_t* count);
[[nodiscard]] cudaError_t api_node_dependencies(cudaGraphNode_t node, cudaGraphNode_t* list,
                                                void* edges, std::size_t* count);
[[nodiscard]] cudaError_t api_node_dependents(cudaGraphNode_t node, cudaGraphNode_t* list,
                                              void* edges, std::size_t* count);
[[nodiscard]] cudaError_t api_node_type(cudaGraphNode_t node, int* type);
[[nodiscard]] cudaError_t api_graph_print(cudaGraph_t graph, const char* path);

struct NodePlace {
  cudaGraphNode_t* node = nullptr;  // out
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t dependency_count = 0;
};
[[nodiscard]] cudaError_t api_add_empty_node(NodePlace place);
// A kernel, copy, fill or host function on the calling thread's device. NotSupported where the
// graph's work is another device's.
[[nodiscard]] cudaError_t api_add_work_node(ThreadState& thread, NodePlace place, MadeWork made);
// Other work of the same kind.
[[nodiscard]] cudaError_t api_set_node_work(ThreadState& thread, cudaGraphNode_t node,
                                            MadeWork made);
// What a node of that type does; null where the node is of another.
[[nodiscard]] std::shared_ptr<const NodeWork> api_node_work(cudaGraphNode_t node,
                                                            cudaGraphNodeType type);
// A graph as a node, as it is now: no later call on it changes the node. InvalidValue where it has
// a circle; check_child() says what else is refused.
[[nodiscard]] MadeWork child_work(ThreadState& thread, cudaGraph_t child);
// The child ends with the parent, and not by itself.
void own_child(cudaGraph_t parent, cudaGraph_t child);
[[nodiscard]] cudaError_t api_add_allocation_node(ThreadState& thread, NodePlace place,
                                                  cudaMemAllocNodeParams* parameters);
[[nodiscard]] cudaError_t api_add_free_node(NodePlace place, std::uint64_t address);
[[nodiscard]] cudaError_t api_allocation_node(cudaGraphNode_t node,
                                              cudaMemAllocNodeParams* parameters);
[[nodiscard]] cudaError_t api_free_node(cudaGraphNode_t node, std::uint64_t* address);

// ---- executable graphs
// A child has no memory nodes, is of the parent's device, and has at most 10000 nodes.
[[nodiscard]] cudaError_t check_child(ThreadState& thread, const GraphPlan& plan,
                                      const SimulatedDevice* device);
[[nodiscard]] cudaError_t api_instantiate(ThreadState& thread, cudaGraphExec_t* exec,
                                          cudaGraph_t graph, unsigned long long flags);
[[nodiscard]] cudaError_t api_instantiate_with(ThreadState& thread, cudaGraphExec_t* exec,
                                               cudaGraph_t graph,
                                               cudaGraphInstantiateParams* parameters);
[[nodiscard]] cudaError_t api_exec_destroy(cudaGraphExec_t exec);
[[nodiscard]] cudaError_t api_exec_flags(cudaGraphExec_t exec, unsigned long long* flags);
[[nodiscard]] cudaError_t api_exec_update(cudaGraphExec_t exec, cudaGraph_t graph,
                                          cudaGraphExecUpdateResultInfo* result);
// The same as api_set_node_work() in what was instantiated from the node's graph, which stays as it
// is. InvalidValue where CUDA's manual does not let the new work follow the old.
[[nodiscard]] cudaError_t api_exec_set_work(ThreadState& thread, cudaGraphExec_t exec,
                                            cudaGraphNode_t node, MadeWork made);
[[nodiscard]] cudaError_t api_launch(ThreadState& thread, cudaGraphExec_t exec,
                                     cudaStream_t stream);
[[nodiscard]] cudaError_t api_upload(ThreadState& thread, cudaGraphExec_t exec,
                                     cudaStream_t stream);

// ---- the device's memory of graphs
[[nodiscard]] cudaError_t api_get_graph_memory(ThreadState& thread, int device, int attribute,
                                               void* value);
[[nodiscard]] cudaError_t api_set_graph_memory(ThreadState& thread, int device, int attribute,
                                               const void* value);
[[nodiscard]] cudaError_t api_trim_graph_memory(ThreadState& thread, int device);

}  // namespace simcuda

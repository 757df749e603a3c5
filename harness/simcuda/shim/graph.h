// Graphs as the shims keep them: nodes in the order in which they were added, what each does when a
// launch comes to it, and what was instantiated. In: nodes from captures and from the program. Out:
// plans, which a launch carries out.
//
// Everything here, and captures, is guarded by graph_mutex(); a device's lock is only taken inside
// it. No function of the program is called under it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <variant>
#include <vector>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/user_objects.h"

namespace simcuda {

struct GraphPlan;

enum class NodeKind : std::uint8_t {
  Empty,
  Work,  // a kernel, copy or fill
  Gate,  // a kernel that ends when a gate opens
  HostFunction,
  WaitEvent,
  RecordEvent,
  Allocate,
  Free,
  Child,  // a graph: launched in the capture, or added as a node
};

// What came of a piece of work whose effect on memory has just happened.
struct NodeRun {
  cudaError_t error = cudaSuccess;
  std::uint64_t duration_ns = 0;
};

// What a program asks back of a copy or a fill.
using NodeParameters = std::variant<std::monostate, CUDA_MEMCPY3D, cudaMemsetParams>;

// What a node does at each launch.
struct NodeWork {
  NodeKind kind = NodeKind::Empty;
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  std::function<NodeRun()> run = {};  // Work; called without locks
  std::uint64_t gate = 0;
  cudaHostFn_t function = nullptr;
  void* data = nullptr;
  SimEvent* event = nullptr;
  EventId event_id = 0;  // tells the event from a later one in its place
  Range block = {};      // Allocate: where; Free: lo is what
  std::shared_ptr<const GraphPlan> child = {};
  NodeParameters parameters = {};
};

// The record of an event or the wait for it: cudaGraphNodeTypeEventRecord,
// cudaGraphNodeTypeWaitEvent.
[[nodiscard]] inline NodeWork event_node(SimEvent& event, cudaGraphNodeType type) {
  return {
      .kind = type == cudaGraphNodeTypeEventRecord ? NodeKind::RecordEvent : NodeKind::WaitEvent,
      .type = type,
      .event = &event,
      .event_id = event.id};
}

// What a node would do, or the error of asking for that.
struct MadeWork {
  cudaError_t error = cudaSuccess;
  NodeWork work = {};
};

struct SimGraph;

// Behind cudaGraphNode_t.
struct SimGraphNode {
  bool live = false;
  std::uint64_t number = 0;  // of all nodes ever made; tells it in plans
  SimGraph* graph = nullptr;
  std::vector<SimGraphNode*> dependencies;
  std::shared_ptr<const NodeWork> work;
};

// An allocation of a graph, and the node that frees it again: null where the graph does not.
struct GraphAllocation {
  Range range;
  const SimGraphNode* free_node = nullptr;
};

// How many executable graphs a graph with memory nodes has; outlives the graph.
struct Instances {
  std::uint32_t count = 0;
};

// Behind cudaGraph_t.
struct SimGraph {
  bool live = false;
  bool is_captured_into = false;
  bool is_moved = false;              // it belongs to a graph whose node it is
  SimulatedDevice* device = nullptr;  // of its work; null as long as there is none
  ArenaId arena = 0;                  // 0: it allocates nothing
  std::vector<SimGraphNode*> nodes;
  std::vector<GraphAllocation> allocations;
  bool has_memory_nodes = false;
  std::shared_ptr<Instances> instances;
  UserReferences user_objects;
  std::vector<SimGraph*> moved_children;  // end with the graph
};

struct PlannedNode {
  std::uint64_t number = 0;  // the node's
  std::shared_ptr<const NodeWork> work;
  std::vector<std::uint32_t> dependencies;  // indices of earlier nodes
};

// What a launch does, in an order that keeps all dependencies. Never changed once it is made.
struct GraphPlan {
  SimulatedDevice* device = nullptr;
  ArenaId arena = 0;
  bool has_memory_nodes = false;
  std::vector<PlannedNode> nodes;
  std::vector<Range> unfreed;  // allocations that the graph does not free itself
};

// Behind cudaGraphExec_t.
struct SimGraphExec {
  bool live = false;
  std::uint64_t flags = 0;
  std::shared_ptr<const GraphPlan> plan;
  std::shared_ptr<Instances> instances;
  UserReferences user_objects;  // of the graph, when it was instantiated
  SimulatedDevice* last_device = nullptr;
  EventId last_end = 0;  // recorded behind the last launch; 0: none yet
};

[[nodiscard]] std::mutex& graph_mutex();

// Null where the handle is none of ours, or was destroyed.
[[nodiscard]] SimGraph* resolve_graph(cudaGraph_t graph);
[[nodiscard]] SimGraphNode* resolve_node(cudaGraphNode_t node);
[[nodiscard]] SimGraphExec* resolve_exec(cudaGraphExec_t exec);
// Nothing where a handle names no node of the graph.
[[nodiscard]] std::optional<std::vector<SimGraphNode*>> nodes_in(const SimGraph& graph,
                                                                 const cudaGraphNode_t* handles,
                                                                 std::size_t count);
template <class Handle, class Object>
[[nodiscard]] Handle handle_of(Object* object) {
  return reinterpret_cast<Handle>(object);
}

// Null where a million are in use.
[[nodiscard]] SimGraph* new_graph();
[[nodiscard]] SimGraphNode* add_node(SimGraph& graph, std::vector<SimGraphNode*> dependencies,
                                     NodeWork work);
[[nodiscard]] SimGraphExec* new_exec(std::shared_ptr<const GraphPlan> plan);
// Whoever calls these calls run_destructors() once graph_mutex() is free.
void destroy_graph(SimGraph& graph);
void recycle_exec(SimGraphExec& exec);

// The nodes and all that they depend on.
[[nodiscard]] std::unordered_set<const SimGraphNode*> with_ancestors(
    const std::vector<SimGraphNode*>& nodes);

// Adds an allocation node, or a free node. InvalidValue where the graph cannot free that address.
struct GraphAllocationResult {
  cudaError_t error = cudaSuccess;
  SimGraphNode* node = nullptr;
  std::uint64_t address = 0;
};
[[nodiscard]] GraphAllocationResult add_allocation(SimGraph& graph, SimulatedDevice& device,
                                                   std::vector<SimGraphNode*> dependencies,
                                                   std::uint64_t size_bytes);
[[nodiscard]] GraphAllocationResult add_free(SimGraph& graph, SimulatedDevice& device,
                                             std::vector<SimGraphNode*> dependencies,
                                             std::uint64_t address);

// Null where the dependencies go round in a circle.
[[nodiscard]] std::shared_ptr<GraphPlan> make_plan(const SimGraph& graph);

// A child has no memory nodes, is of the parent's device, and has at most 10000 nodes.
[[nodiscard]] cudaError_t check_child(ThreadState& thread, const GraphPlan& plan,
                                      const SimulatedDevice* device);
// Other work of the node in what was instantiated from its graph, which stays as it is.
// InvalidValue where CUDA's manual does not let the new work follow the old.
[[nodiscard]] cudaError_t set_exec_work(ThreadState& thread, cudaGraphExec_t exec,
                                        cudaGraphNode_t node, MadeWork made);
[[nodiscard]] cudaError_t upload_graph(ThreadState& thread, cudaGraphExec_t exec,
                                       cudaStream_t stream);

}  // namespace simcuda

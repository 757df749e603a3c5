// See graph.h.
#include "harness/simcuda/shim/graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/handle_arena.h"
#include "harness/simcuda/shim/sanitizers.h"

namespace simcuda {
namespace {

ReusedObjects<SimGraph>& graphs() { return made_once<ReusedObjects<SimGraph>>(); }
ReusedObjects<SimGraphNode>& nodes() { return made_once<ReusedObjects<SimGraphNode>>(); }
ReusedObjects<SimGraphExec>& execs() { return made_once<ReusedObjects<SimGraphExec>>(); }

// Ranges that a new allocation behind those nodes must not share: all that are not freed before.
std::vector<Range> ranges_in_the_way(const SimGraph& graph,
                                     const std::vector<SimGraphNode*>& dependencies) {
  const std::unordered_set<const SimGraphNode*> before = with_ancestors(dependencies);
  std::vector<Range> ranges;
  for (const GraphAllocation& allocation : graph.allocations) {
    if (!before.contains(allocation.free_node)) ranges.push_back(allocation.range);
  }
  return ranges;
}

}  // namespace

std::mutex& graph_mutex() { return made_once<std::mutex>(); }

SimGraph* resolve_graph(cudaGraph_t graph) { return graphs().find(graph); }
SimGraphNode* resolve_node(cudaGraphNode_t node) { return nodes().find(node); }
SimGraphExec* resolve_exec(cudaGraphExec_t exec) { return execs().find(exec); }

std::optional<std::vector<SimGraphNode*>> nodes_in(const SimGraph& graph,
                                                   const cudaGraphNode_t* handles,
                                                   std::size_t count) {
  if ((handles == nullptr && count != 0) || count > graph.nodes.size()) return std::nullopt;
  std::vector<SimGraphNode*> found;
  for (std::size_t i = 0; i < count; ++i) {
    SimGraphNode* const node = resolve_node(handles[i]);
    if (node == nullptr || node->graph != &graph) return std::nullopt;
    found.push_back(node);
  }
  return found;
}

SimGraph* new_graph() {
  SimGraph* const graph = graphs().add();
  if (graph != nullptr) graph->instances = std::make_shared<Instances>();
  return graph;
}

SimGraphNode* add_node(SimGraph& graph, std::vector<SimGraphNode*> dependencies, NodeWork work) {
  SimGraphNode* const node = nodes().add();
  if (node == nullptr) return nullptr;
  static std::uint64_t next_number = 1;
  node->number = next_number++;
  node->graph = &graph;
  node->dependencies = std::move(dependencies);
  node->work = std::make_shared<const NodeWork>(std::move(work));
  graph.nodes.push_back(node);
  return node;
}

SimGraphExec* new_exec(std::shared_ptr<const GraphPlan> plan) {
  SimGraphExec* const exec = execs().add();
  if (exec != nullptr) exec->plan = std::move(plan);
  return exec;
}

void destroy_graph(SimGraph& graph) {
  for (SimGraphNode* const node : graph.nodes) nodes().give_back(*node);
  for (SimGraph* const child : graph.moved_children) destroy_graph(*child);
  release_all(graph.user_objects);
  if (graph.arena != 0) {
    const std::lock_guard lock(graph.device->mutex);
    graph.device->core.graph_memory().let_go(graph.arena);
  }
  graphs().give_back(graph);
}

void recycle_exec(SimGraphExec& exec) {
  release_all(exec.user_objects);
  execs().give_back(exec);
}

std::unordered_set<const SimGraphNode*> with_ancestors(
    const std::vector<SimGraphNode*>& first_nodes) {
  std::unordered_set<const SimGraphNode*> all;
  std::vector<const SimGraphNode*> open(first_nodes.begin(), first_nodes.end());
  while (!open.empty()) {
    const SimGraphNode* const node = open.back();
    open.pop_back();
    if (!all.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return all;
}

GraphAllocationResult add_allocation(SimGraph& graph, SimulatedDevice& device,
                                     std::vector<SimGraphNode*> dependencies,
                                     std::uint64_t size_bytes) {
  const std::vector<Range> taken = ranges_in_the_way(graph, dependencies);
  std::optional<std::uint64_t> address;
  {
    const std::lock_guard lock(device.mutex);
    GraphMemory& memory = device.core.graph_memory();
    if (graph.arena == 0) graph.arena = memory.create_arena();
    graph.device = &device;
    address = memory.place(graph.arena, size_bytes, taken);
  }
  if (!address) return {.error = cudaErrorMemoryAllocation};
  const Range range{*address, *address + size_bytes};
  SimGraphNode* const node =
      add_node(graph, std::move(dependencies),
               {.kind = NodeKind::Allocate, .type = cudaGraphNodeTypeMemAlloc, .block = range});
  if (node == nullptr) return {.error = cudaErrorMemoryAllocation};
  graph.allocations.push_back({.range = range});
  graph.has_memory_nodes = true;
  return {.node = node, .address = *address};
}

GraphAllocationResult add_free(SimGraph& graph, SimulatedDevice& device,
                               std::vector<SimGraphNode*> dependencies, std::uint64_t address) {
  {
    const std::lock_guard lock(device.mutex);
    if (!device.core.graph_memory().plan_free(address, graph.arena)) {
      return {.error = cudaErrorInvalidValue};
    }
  }
  graph.device = &device;
  SimGraphNode* const node = add_node(
      graph, std::move(dependencies),
      {.kind = NodeKind::Free, .type = cudaGraphNodeTypeMemFree, .block = {address, address}});
  if (node == nullptr) return {.error = cudaErrorMemoryAllocation};
  for (auto at = graph.allocations.rbegin(); at != graph.allocations.rend(); ++at) {
    if (at->range.lo != address || at->free_node != nullptr) continue;
    at->free_node = node;
    break;
  }
  graph.has_memory_nodes = true;
  return {.node = node, .address = address};
}

std::shared_ptr<GraphPlan> make_plan(const SimGraph& graph) {
  auto plan = std::make_shared<GraphPlan>();
  plan->device = graph.device;
  plan->arena = graph.arena;
  plan->has_memory_nodes = graph.has_memory_nodes;
  for (const GraphAllocation& allocation : graph.allocations) {
    if (allocation.free_node == nullptr) plan->unfreed.push_back(allocation.range);
  }
  std::unordered_map<const SimGraphNode*, std::uint32_t> index_of;
  // Captured nodes are in order already, so that one round takes all.
  while (plan->nodes.size() < graph.nodes.size()) {
    const std::size_t count_before = plan->nodes.size();
    for (const SimGraphNode* const node : graph.nodes) {
      const bool is_ready =
          !index_of.contains(node) &&
          std::all_of(node->dependencies.begin(), node->dependencies.end(),
                      [&](const SimGraphNode* before) { return index_of.contains(before); });
      if (!is_ready) continue;
      PlannedNode planned{.number = node->number, .work = node->work, .dependencies = {}};
      for (const SimGraphNode* const before : node->dependencies) {
        planned.dependencies.push_back(index_of.at(before));
      }
      index_of.emplace(node, static_cast<std::uint32_t>(plan->nodes.size()));
      plan->nodes.push_back(std::move(planned));
    }
    if (plan->nodes.size() == count_before) return nullptr;
  }
  return plan;
}

}  // namespace simcuda

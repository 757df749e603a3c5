// Graphs and their nodes, as both APIs ask for them (graph_api.h). In: handles, right or wrong.
// Out: nodes, lists, errors.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/library.h"

namespace simcuda {
namespace {

// As much of `found` as there is room for; the rest of the list is set to null.
cudaError_t give_list(const std::vector<SimGraphNode*>& found, cudaGraphNode_t* list,
                      std::size_t* count) {
  if (list == nullptr) {
    *count = found.size();
    return cudaSuccess;
  }
  for (std::size_t i = 0; i < *count; ++i) {
    list[i] = i < found.size() ? handle_of<cudaGraphNode_t>(found[i]) : nullptr;
  }
  *count = std::min(*count, found.size());
  return cudaSuccess;
}

// All edges are plain.
void give_edges(void* edges, const cudaGraphNode_t* list, std::size_t count) {
  if (edges != nullptr && list != nullptr) {
    std::memset(edges, 0, count * sizeof(cudaGraphEdgeData));
  }
}

std::vector<SimGraphNode*> dependents_of(const SimGraphNode& node) {
  std::vector<SimGraphNode*> found;
  for (SimGraphNode* const other : node.graph->nodes) {
    if (std::ranges::find(other->dependencies, &node) != other->dependencies.end()) {
      found.push_back(other);
    }
  }
  return found;
}

// Where a node is to be put; `graph` null where the program names something wrong.
struct ResolvedPlace {
  SimGraph* graph = nullptr;
  std::vector<SimGraphNode*> dependencies;
};
ResolvedPlace resolve_place(const NodePlace& place) {
  SimGraph* const graph = resolve_graph(place.graph);
  if (place.node == nullptr || graph == nullptr ||
      (place.dependencies == nullptr && place.dependency_count != 0) ||
      place.dependency_count > graph->nodes.size()) {
    return {};
  }
  ResolvedPlace resolved{.graph = graph, .dependencies = {}};
  for (std::size_t i = 0; i < place.dependency_count; ++i) {
    SimGraphNode* const node = resolve_node(place.dependencies[i]);
    const bool is_new =
        std::ranges::find(resolved.dependencies, node) == resolved.dependencies.end();
    if (node == nullptr || node->graph != graph || !is_new) return {};
    resolved.dependencies.push_back(node);
  }
  return resolved;
}

// Whether the graph may have work of the device.
cudaError_t check_device(ThreadState& thread, const SimGraph& graph,
                         const SimulatedDevice& device) {
  if (graph.device == nullptr || graph.device == &device) return cudaSuccess;
  return explain(thread, cudaErrorNotSupported, "simcuda: a graph has work on two devices");
}

constexpr std::array kTypeNames = {"kernel", "memcpy",      "memset",       "host",
                                   "graph",  "empty",       "wait event",   "record event",
                                   "signal", "wait signal", "memory alloc", "memory free"};

}  // namespace

cudaError_t api_graph_create(cudaGraph_t* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
  const std::lock_guard lock(graph_mutex());
  SimGraph* const made = new_graph();
  if (made == nullptr) return cudaErrorMemoryAllocation;
  *graph = handle_of<cudaGraph_t>(made);
  return cudaSuccess;
}

cudaError_t api_graph_destroy(cudaGraph_t graph) {
  {
    const std::lock_guard lock(graph_mutex());
    SimGraph* const found = resolve_graph(graph);
    if (found == nullptr || found->is_captured_into || found->is_moved) {
      return cudaErrorInvalidValue;
    }
    destroy_graph(*found);
  }
  run_destructors();
  return cudaSuccess;
}

cudaError_t api_graph_clone(cudaGraph_t* clone, cudaGraph_t original) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const from = resolve_graph(original);
  if (clone == nullptr || from == nullptr) return cudaErrorInvalidValue;
  if (from->has_memory_nodes) return cudaErrorNotSupported;
  SimGraph* const made = new_graph();
  if (made == nullptr) return cudaErrorMemoryAllocation;
  made->device = from->device;
  made->user_objects = from->user_objects;
  retain_all(made->user_objects);
  std::unordered_map<const SimGraphNode*, SimGraphNode*> copies;
  for (const SimGraphNode* const node : from->nodes) {
    SimGraphNode* const copy = add_node(*made, {}, *node->work);
    if (copy == nullptr) {
      destroy_graph(*made);
      return cudaErrorMemoryAllocation;
    }
    copies[node] = copy;
  }
  for (const SimGraphNode* const node : from->nodes) {
    for (const SimGraphNode* const before : node->dependencies) {
      copies.at(node)->dependencies.push_back(copies.at(before));
    }
  }
  *clone = handle_of<cudaGraph_t>(made);
  return cudaSuccess;
}

cudaError_t api_graph_nodes(cudaGraph_t graph, cudaGraphNode_t* list, std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(graph);
  if (found == nullptr || count == nullptr) return cudaErrorInvalidValue;
  return give_list(found->nodes, list, count);
}

cudaError_t api_graph_roots(cudaGraph_t graph, cudaGraphNode_t* list, std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(graph);
  if (found == nullptr || count == nullptr) return cudaErrorInvalidValue;
  std::vector<SimGraphNode*> roots;
  std::ranges::copy_if(found->nodes, std::back_inserter(roots),
                       [](const SimGraphNode* node) { return node->dependencies.empty(); });
  return give_list(roots, list, count);
}

cudaError_t api_graph_edges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                            void* edges, std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(graph);
  if (found == nullptr || count == nullptr || (from == nullptr) != (to == nullptr) ||
      (edges != nullptr && from == nullptr)) {
    return cudaErrorInvalidValue;
  }
  std::vector<SimGraphNode*> begins;
  std::vector<SimGraphNode*> ends;
  for (SimGraphNode* const node : found->nodes) {
    for (SimGraphNode* const before : node->dependencies) {
      begins.push_back(before);
      ends.push_back(node);
    }
  }
  std::size_t begin_count = *count;
  static_cast<void>(give_list(begins, from, &begin_count));
  static_cast<void>(give_list(ends, to, count));
  give_edges(edges, from, *count);
  return cudaSuccess;
}

cudaError_t api_node_dependencies(cudaGraphNode_t node, cudaGraphNode_t* list, void* edges,
                                  std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || count == nullptr || (edges != nullptr && list == nullptr)) {
    return cudaErrorInvalidValue;
  }
  static_cast<void>(give_list(found->dependencies, list, count));
  give_edges(edges, list, *count);
  return cudaSuccess;
}

cudaError_t api_node_dependents(cudaGraphNode_t node, cudaGraphNode_t* list, void* edges,
                                std::size_t* count) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || count == nullptr || (edges != nullptr && list == nullptr)) {
    return cudaErrorInvalidValue;
  }
  static_cast<void>(give_list(dependents_of(*found), list, count));
  give_edges(edges, list, *count);
  return cudaSuccess;
}

cudaError_t api_node_type(cudaGraphNode_t node, int* type) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || type == nullptr) return cudaErrorInvalidValue;
  *type = found->work->type;
  return cudaSuccess;
}

cudaError_t api_graph_print(cudaGraph_t graph, const char* path) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(graph);
  if (found == nullptr || path == nullptr) return cudaErrorInvalidValue;
  std::ofstream file(path);
  file << "digraph graph_of_simcuda {\n";
  for (std::size_t i = 0; i < found->nodes.size(); ++i) {
    const auto type = static_cast<std::size_t>(found->nodes[i]->work->type);
    file << "  n" << i << " [label=\"" << i << ' '
         << (type < kTypeNames.size() ? kTypeNames[type] : "other") << "\"];\n";
    for (const SimGraphNode* const before : found->nodes[i]->dependencies) {
      file << "  n" << std::ranges::find(found->nodes, before) - found->nodes.begin() << " -> n"
           << i << ";\n";
    }
  }
  file << "}\n";
  file.close();
  return file ? cudaSuccess : cudaErrorOperatingSystem;
}

cudaError_t api_add_empty_node(NodePlace place) {
  const std::lock_guard lock(graph_mutex());
  ResolvedPlace resolved = resolve_place(place);
  if (resolved.graph == nullptr) return cudaErrorInvalidValue;
  SimGraphNode* const node = add_node(*resolved.graph, std::move(resolved.dependencies), {});
  if (node == nullptr) return cudaErrorMemoryAllocation;
  *place.node = handle_of<cudaGraphNode_t>(node);
  return cudaSuccess;
}

cudaError_t api_add_work_node(ThreadState& thread, NodePlace place, MadeWork made) {
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

void own_child(cudaGraph_t parent, cudaGraph_t child) {
  const std::lock_guard lock(graph_mutex());
  SimGraph* const owner = resolve_graph(parent);
  SimGraph* const found = resolve_graph(child);
  if (owner == nullptr || found == nullptr || found == owner || found->is_moved) return;
  found->is_moved = true;
  owner->moved_children.push_back(found);
}

cudaError_t api_set_node_work(ThreadState& thread, cudaGraphNode_t node, MadeWork made) {
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

std::shared_ptr<const NodeWork> api_node_work(cudaGraphNode_t node, cudaGraphNodeType type) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  return found == nullptr || found->work->type != type ? nullptr : found->work;
}

cudaError_t api_add_allocation_node(ThreadState& thread, NodePlace place,
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

cudaError_t api_add_free_node(NodePlace place, std::uint64_t address) {
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

cudaError_t api_allocation_node(cudaGraphNode_t node, cudaMemAllocNodeParams* parameters) {
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

cudaError_t api_free_node(cudaGraphNode_t node, std::uint64_t* address) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || address == nullptr || found->work->kind != NodeKind::Free) {
    return cudaErrorInvalidValue;
  }
  *address = found->work->block.lo;
  return cudaSuccess;
}

}  // namespace simcuda

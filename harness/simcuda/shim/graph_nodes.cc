// Graphs, and questions about their nodes. In: handles, right or wrong. Out: lists, errors.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/twins.h"

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

constexpr std::array kTypeNames = {"kernel", "memcpy",      "memset",       "host",
                                   "graph",  "empty",       "wait event",   "record event",
                                   "signal", "wait signal", "memory alloc", "memory free"};

cudaError_t create_graph(cudaGraph_t* graph, unsigned flags) {
  if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
  const std::lock_guard lock(graph_mutex());
  SimGraph* const made = new_graph();
  if (made == nullptr) return cudaErrorMemoryAllocation;
  *graph = handle_of<cudaGraph_t>(made);
  return cudaSuccess;
}

cudaError_t end_graph(cudaGraph_t graph) {
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

cudaError_t clone_graph(cudaGraph_t* clone, cudaGraph_t original) {
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

// Lists as CUDA gives them: `list` null asks for the number alone.
template <class IsAsked>
cudaError_t give_nodes_that(cudaGraph_t graph, cudaGraphNode_t* list, std::size_t* count,
                            IsAsked is_asked) {
  const std::lock_guard lock(graph_mutex());
  const SimGraph* const found = resolve_graph(graph);
  if (found == nullptr || count == nullptr) return cudaErrorInvalidValue;
  std::vector<SimGraphNode*> asked;
  std::ranges::copy_if(found->nodes, std::back_inserter(asked), is_asked);
  return give_list(asked, list, count);
}

cudaError_t give_nodes(cudaGraph_t graph, cudaGraphNode_t* list, std::size_t* count) {
  return give_nodes_that(graph, list, count, [](const SimGraphNode*) { return true; });
}

cudaError_t give_roots(cudaGraph_t graph, cudaGraphNode_t* list, std::size_t* count) {
  return give_nodes_that(graph, list, count,
                         [](const SimGraphNode* node) { return node->dependencies.empty(); });
}

cudaError_t give_edges_of(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
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

// What `ask` says of the node, all plain edges.
template <class Ask>
cudaError_t give_neighbours(cudaGraphNode_t node, cudaGraphNode_t* list, void* edges,
                            std::size_t* count, Ask ask) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || count == nullptr || (edges != nullptr && list == nullptr)) {
    return cudaErrorInvalidValue;
  }
  static_cast<void>(give_list(ask(*found), list, count));
  give_edges(edges, list, *count);
  return cudaSuccess;
}

cudaError_t give_dependencies(cudaGraphNode_t node, cudaGraphNode_t* list, void* edges,
                              std::size_t* count) {
  return give_neighbours(node, list, edges, count,
                         [](const SimGraphNode& found) { return found.dependencies; });
}

cudaError_t give_dependents(cudaGraphNode_t node, cudaGraphNode_t* list, void* edges,
                            std::size_t* count) {
  return give_neighbours(node, list, edges, count, dependents_of);
}

cudaError_t give_type(cudaGraphNode_t node, int* type) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphNode* const found = resolve_node(node);
  if (found == nullptr || type == nullptr) return cudaErrorInvalidValue;
  *type = found->work->type;
  return cudaSuccess;
}

cudaError_t print_graph(cudaGraph_t graph, const char* path) {
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

}  // namespace

SIMCUDA_TWINS(cudaGraphCreate, cuGraphCreate, (cudaGraph_t * graph, unsigned int flags), (flags),
              create_graph(graph, flags))
SIMCUDA_TWINS(cudaGraphDestroy, cuGraphDestroy, (cudaGraph_t graph), (number(graph)),
              end_graph(graph))
SIMCUDA_TWINS(cudaGraphClone, cuGraphClone, (cudaGraph_t * clone, cudaGraph_t original),
              (number(original)), clone_graph(clone, original))
SIMCUDA_TWINS(cudaGraphGetNodes, cuGraphGetNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              give_nodes(graph, nodes, count))
SIMCUDA_TWINS(cudaGraphGetRootNodes, cuGraphGetRootNodes,
              (cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count), (number(graph)),
              give_roots(graph, nodes, count))
SIMCUDA_TWINS(cudaGraphDebugDotPrint, cuGraphDebugDotPrint,
              (cudaGraph_t graph, const char* path, unsigned int flags), (number(graph), flags),
              print_graph(graph, path))
SIMCUDA_PAIR(cudaGraphNodeGetType, (cudaGraphNode_t node, cudaGraphNodeType* type),
             cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType* type), (number(node)),
             give_type(node, as_runtime<int*>(type)))

// What takes edge data in CUDA 13 took none in 12.
#if CUDART_VERSION >= 13000
SIMCUDA_RUNTIME(cudaGraphGetEdges,
                (cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                 cudaGraphEdgeData* edges, size_t* count),
                (number(graph)), give_edges_of(graph, from, to, edges, count))
SIMCUDA_RUNTIME(cudaGraphNodeGetDependencies,
                (cudaGraphNode_t node, cudaGraphNode_t* dependencies, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), give_dependencies(node, dependencies, edges, count))
SIMCUDA_RUNTIME(cudaGraphNodeGetDependentNodes,
                (cudaGraphNode_t node, cudaGraphNode_t* dependents, cudaGraphEdgeData* edges,
                 size_t* count),
                (number(node)), give_dependents(node, dependents, edges, count))
#endif
#if CUDA_VERSION >= 12030
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphGetEdges_v2, "cuGraphGetEdges",
                 (CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* edges,
                  size_t* count),
                 (number(graph)), as_result(give_edges_of(graph, from, to, edges, count)))
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphNodeGetDependencies_v2, "cuGraphNodeGetDependencies",
                 (CUgraphNode node, CUgraphNode* dependencies, CUgraphEdgeData* edges,
                  size_t* count),
                 (number(node)), as_result(give_dependencies(node, dependencies, edges, count)))
SIMCUDA_FUNCTION(driver_call, CUresult, cuGraphNodeGetDependentNodes_v2,
                 "cuGraphNodeGetDependentNodes",
                 (CUgraphNode node, CUgraphNode* dependents, CUgraphEdgeData* edges, size_t* count),
                 (number(node)), as_result(give_dependents(node, dependents, edges, count)))
#endif

}  // namespace simcuda

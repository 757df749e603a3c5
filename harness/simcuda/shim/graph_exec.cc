// Executable graphs, and the device's memory of graphs.
#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/simcuda/shim/graph.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/memory_copy.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

constexpr std::uint64_t kExecFlags = cudaGraphInstantiateFlagAutoFreeOnLaunch |
                                     cudaGraphInstantiateFlagDeviceLaunch |
                                     cudaGraphInstantiateFlagUseNodePriority;

// With graph_mutex().
cudaError_t instantiate(ThreadState& thread, cudaGraphExec_t* exec, cudaGraph_t graph,
                        std::uint64_t flags, bool* is_circle) {
  SimGraph* const found = resolve_graph(graph);
  if (exec == nullptr || found == nullptr || (flags & ~kExecFlags) != 0) {
    return cudaErrorInvalidValue;
  }
  if ((flags & cudaGraphInstantiateFlagDeviceLaunch) != 0) {
    if ((flags & cudaGraphInstantiateFlagAutoFreeOnLaunch) != 0) return cudaErrorInvalidValue;
    return explain(thread, cudaErrorNotSupported, "simcuda: no graph is launched by the device");
  }
  if (found->has_memory_nodes && found->instances->count != 0) return cudaErrorNotSupported;
  std::shared_ptr<const GraphPlan> plan = make_plan(*found);
  if (plan == nullptr) {
    *is_circle = true;
    return cudaErrorInvalidValue;
  }
  SimGraphExec* const made = new_exec(std::move(plan));
  if (made == nullptr) return cudaErrorMemoryAllocation;
  made->flags = flags;
  made->instances = found->instances;
  made->user_objects = found->user_objects;
  retain_all(made->user_objects);
  ++made->instances->count;
  if (found->arena != 0) {
    const std::lock_guard lock(found->device->mutex);
    found->device->core.graph_memory().hold(found->arena);
  }
  *exec = handle_of<cudaGraphExec_t>(made);
  return cudaSuccess;
}

// Fills go on with another value, elsewhere, and rows with another length. On another device they
// do not, by CUDA's manual.
bool fill_may_follow(const cudaMemsetParams& before, const cudaMemsetParams& after) {
  const auto rows = [](const cudaMemsetParams& fill) {
    return std::max<std::size_t>(fill.height, 1);
  };
  const SimulatedDevice* const old_device = device_of_address(number(before.dst));
  const SimulatedDevice* const device = device_of_address(number(after.dst));
  return rows(before) == rows(after) &&
         (rows(after) == 1 || (before.width == after.width && before.pitch == after.pitch &&
                               before.elementSize == after.elementSize)) &&
         (old_device == nullptr || device == nullptr || old_device == device);
}

cudaGraphExecUpdateResult compare(const GraphPlan& old_plan, const GraphPlan& new_plan);

// How the work of a node of one type may change in what was instantiated, as an H200 answered
// (driver 580.159.04) where nothing else is said.
cudaGraphExecUpdateResult compare(const NodeWork& before, const NodeWork& after) {
  if (after.child != nullptr) return compare(*before.child, *after.child);
  bool is_alike = true;
  if (const auto* const copy = std::get_if<CUDA_MEMCPY3D>(&after.parameters)) {
    is_alike = copy_may_follow(std::get<CUDA_MEMCPY3D>(before.parameters), *copy);
  } else if (const auto* const fill = std::get_if<cudaMemsetParams>(&after.parameters)) {
    is_alike = fill_may_follow(std::get<cudaMemsetParams>(before.parameters), *fill);
  }
  return is_alike ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorParametersChanged;
}

// Where the two differ, as cudaGraphExecUpdate says it; success where they do not.
cudaGraphExecUpdateResult compare(const GraphPlan& old_plan, const GraphPlan& new_plan) {
  if (old_plan.has_memory_nodes || new_plan.has_memory_nodes) {
    return cudaGraphExecUpdateErrorNotSupported;
  }
  if (old_plan.nodes.size() != new_plan.nodes.size()) {
    return cudaGraphExecUpdateErrorTopologyChanged;
  }
  for (std::size_t i = 0; i < old_plan.nodes.size(); ++i) {
    const PlannedNode& before = old_plan.nodes[i];
    const PlannedNode& after = new_plan.nodes[i];
    if (before.dependencies != after.dependencies) return cudaGraphExecUpdateErrorTopologyChanged;
    if (before.work->type != after.work->type) return cudaGraphExecUpdateErrorNodeTypeChanged;
    if (const auto result = compare(*before.work, *after.work)) return result;
  }
  return cudaGraphExecUpdateSuccess;
}

// The work of the node of that number, also where it is a child's; null where there is none.
const NodeWork* find_work(const GraphPlan& plan, std::uint64_t number) {
  for (const PlannedNode& node : plan.nodes) {
    if (node.number == number) return node.work.get();
    if (node.work->child == nullptr) continue;
    if (const NodeWork* const found = find_work(*node.work->child, number)) return found;
  }
  return nullptr;
}

// The plan with other work of that node.
std::shared_ptr<const GraphPlan> with_work(const GraphPlan& plan, std::uint64_t number,
                                           const std::shared_ptr<const NodeWork>& work) {
  auto changed = std::make_shared<GraphPlan>(plan);
  for (PlannedNode& node : changed->nodes) {
    if (node.number == number) {
      node.work = work;
    } else if (node.work->child != nullptr && find_work(*node.work->child, number) != nullptr) {
      NodeWork parent = *node.work;
      parent.child = with_work(*parent.child, number, work);
      node.work = std::make_shared<const NodeWork>(std::move(parent));
    }
  }
  return changed;
}

std::uint64_t attribute_of(const MemoryUsage& usage, int attribute) {
  switch (attribute) {
    case cudaGraphMemAttrUsedMemCurrent:
      return usage.used_bytes;
    case cudaGraphMemAttrUsedMemHigh:
      return usage.used_bytes_high;
    case cudaGraphMemAttrReservedMemCurrent:
      return usage.reserved_bytes;
    default:
      return usage.reserved_bytes_high;
  }
}

// With graph_mutex().
cudaError_t destroy_exec(cudaGraphExec_t exec) {
  SimGraphExec* const found = resolve_exec(exec);
  if (found == nullptr) return cudaErrorInvalidValue;
  --found->instances->count;
  if (found->last_end != 0) {
    const std::lock_guard device_lock(found->last_device->mutex);
    static_cast<void>(found->last_device->core.streams().destroy_event(found->last_end));
  }
  if (const GraphPlan& plan = *found->plan; plan.arena != 0) {
    const std::lock_guard device_lock(plan.device->mutex);
    plan.device->core.graph_memory().unmap(plan.arena);
    plan.device->core.graph_memory().let_go(plan.arena);
  }
  recycle_exec(*found);
  return cudaSuccess;
}

cudaError_t end_exec(cudaGraphExec_t exec) {
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard lock(graph_mutex());
    error = destroy_exec(exec);
  }
  run_destructors();
  return error;
}

cudaError_t instantiate_plain(ThreadState& thread, cudaGraphExec_t* exec, cudaGraph_t graph,
                              unsigned long long flags) {
  const std::lock_guard lock(graph_mutex());
  bool is_circle = false;
  return instantiate(thread, exec, graph, flags, &is_circle);
}

cudaError_t instantiate_with(ThreadState& thread, cudaGraphExec_t* exec, cudaGraph_t graph,
                             cudaGraphInstantiateParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  bool is_circle = false;
  const std::uint64_t flags = parameters->flags & ~std::uint64_t{cudaGraphInstantiateFlagUpload};
  cudaError_t error = cudaSuccess;
  {
    const std::lock_guard lock(graph_mutex());
    error = instantiate(thread, exec, graph, flags, &is_circle);
  }
  if (error == cudaSuccess && flags != parameters->flags) {
    error = upload_graph(thread, *exec, parameters->uploadStream);
    if (error != cudaSuccess) static_cast<void>(end_exec(*exec));
  }
  parameters->errNode_out = nullptr;
  parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess
                           : is_circle          ? cudaGraphInstantiateInvalidStructure
                                                : cudaGraphInstantiateError;
  return error;
}

cudaError_t give_exec_flags(cudaGraphExec_t exec, unsigned long long* flags) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphExec* const found = resolve_exec(exec);
  if (found == nullptr || flags == nullptr) return cudaErrorInvalidValue;
  *flags = found->flags;
  return cudaSuccess;
}

cudaError_t update_exec(cudaGraphExec_t exec, cudaGraph_t graph,
                        cudaGraphExecUpdateResultInfo* result) {
  const std::lock_guard lock(graph_mutex());
  SimGraphExec* const found = resolve_exec(exec);
  const SimGraph* const source = resolve_graph(graph);
  if (found == nullptr || source == nullptr || result == nullptr) return cudaErrorInvalidValue;
  const std::shared_ptr<GraphPlan> plan = make_plan(*source);
  *result = {};
  result->result = plan == nullptr ? cudaGraphExecUpdateError : compare(*found->plan, *plan);
  if (result->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  // Programs go on to name the nodes of the graph that was instantiated.
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) {
    plan->nodes[i].number = found->plan->nodes[i].number;
  }
  found->plan = plan;
  return cudaSuccess;
}

cudaError_t get_graph_memory(ThreadState& thread, int index, int attribute, void* value) {
  SimulatedDevice* const device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  if (value == nullptr || attribute < 0 || attribute > cudaGraphMemAttrReservedMemHigh) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::PoolGetAttribute);
  const std::lock_guard lock(device->mutex);
  const std::uint64_t bytes = attribute_of(device->core.graph_memory().usage(), attribute);
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}

cudaError_t set_graph_memory(ThreadState& thread, int index, int attribute, const void* value) {
  SimulatedDevice* const device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  const bool is_used_high = attribute == cudaGraphMemAttrUsedMemHigh;
  if (value == nullptr || (!is_used_high && attribute != cudaGraphMemAttrReservedMemHigh)) {
    return cudaErrorInvalidValue;
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, value, sizeof bytes);
  if (bytes != 0) return cudaErrorInvalidValue;  // the high marks can only be set back
  thread.charge(CostId::PoolSetAttribute);
  const std::lock_guard lock(device->mutex);
  GraphMemory& memory = device->core.graph_memory();
  is_used_high ? memory.reset_used_high() : memory.reset_reserved_high();
  return cudaSuccess;
}

cudaError_t trim_graph_memory(ThreadState& thread, int index) {
  SimulatedDevice* const device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  const TickScope ticks(thread);
  thread.charge(CostId::PoolTrim);
  const std::lock_guard lock(device->mutex);
  const Outcome outcome = device->core.graph_memory().trim(thread.now_ns());
  charge_work(thread, *device, outcome.work);
  return to_error(outcome.status);
}

}  // namespace

cudaError_t set_exec_work(ThreadState& thread, cudaGraphExec_t exec, cudaGraphNode_t node,
                          MadeWork made) {
  const std::lock_guard lock(graph_mutex());
  SimGraphExec* const found = resolve_exec(exec);
  const SimGraphNode* const named = resolve_node(node);
  if (found == nullptr || named == nullptr) return cudaErrorInvalidValue;
  if (made.error != cudaSuccess) return made.error;
  const NodeWork* const before = find_work(*found->plan, named->number);
  if (before == nullptr || before->type != made.work.type) return cudaErrorInvalidValue;
  if (compare(*before, made.work) != cudaGraphExecUpdateSuccess) {
    return made.work.child != nullptr ? cudaErrorGraphExecUpdateFailure : cudaErrorInvalidValue;
  }
  if (found->plan->device != current_device(thread)) {
    return explain(thread, cudaErrorNotSupported,
                   "simcuda: a graph's node is changed on another device than it was made for");
  }
  found->plan = with_work(*found->plan, named->number,
                          std::make_shared<const NodeWork>(std::move(made.work)));
  return cudaSuccess;
}

SIMCUDA_RUNTIME(cudaGraphInstantiate,
                (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
                (number(graph), flags), instantiate_plain(thread, exec, graph, flags))
SIMCUDA_TWINS(cudaGraphInstantiateWithFlags, cuGraphInstantiateWithFlags,
              (cudaGraphExec_t * exec, cudaGraph_t graph, unsigned long long flags),
              (number(graph), flags), instantiate_plain(thread, exec, graph, flags))
SIMCUDA_PAIR(cudaGraphInstantiateWithParams,
             (cudaGraphExec_t * exec, cudaGraph_t graph, cudaGraphInstantiateParams* parameters),
             cuGraphInstantiateWithParams,
             (CUgraphExec * exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* parameters),
             (number(graph)),
             instantiate_with(thread, exec, graph,
                              as_runtime<cudaGraphInstantiateParams*>(parameters)))
SIMCUDA_PAIR(cudaGraphExecGetFlags, (cudaGraphExec_t exec, unsigned long long* flags),
             cuGraphExecGetFlags, (CUgraphExec exec, cuuint64_t* flags), (number(exec)),
             give_exec_flags(exec, as_runtime<unsigned long long*>(flags)))

// The driver's is defined under the name that the header gives it (cuGraphExecUpdate_v2).
SIMCUDA_PAIR(cudaGraphExecUpdate,
             (cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo* result),
             cuGraphExecUpdate,
             (CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo* result),
             (number(exec), number(graph)),
             update_exec(exec, graph, as_runtime<cudaGraphExecUpdateResultInfo*>(result)))
SIMCUDA_TWINS(cudaGraphExecDestroy, cuGraphExecDestroy, (cudaGraphExec_t exec), (number(exec)),
              end_exec(exec))

// ---- the device's memory of graphs

SIMCUDA_PAIR(cudaDeviceGetGraphMemAttribute,
             (int device, cudaGraphMemAttributeType attribute, void* value),
             cuDeviceGetGraphMemAttribute,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (as_number(device), as_number(attribute)),
             get_graph_memory(thread, device, attribute, value))
SIMCUDA_PAIR(cudaDeviceSetGraphMemAttribute,
             (int device, cudaGraphMemAttributeType attribute, void* value),
             cuDeviceSetGraphMemAttribute,
             (CUdevice device, CUgraphMem_attribute attribute, void* value),
             (as_number(device), as_number(attribute)),
             set_graph_memory(thread, device, attribute, value))
SIMCUDA_TWINS(cudaDeviceGraphMemTrim, cuDeviceGraphMemTrim, (int device), (as_number(device)),
              trim_graph_memory(thread, device))

}  // namespace simcuda

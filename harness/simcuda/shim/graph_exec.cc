// Executable graphs, and the device's memory of graphs, as both APIs ask for them (graph_api.h).
#include <cstring>
#include <utility>

#include "harness/simcuda/shim/graph_api.h"
#include "harness/simcuda/shim/library.h"

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
  ++made->instances->count;
  if (found->arena != 0) {
    const std::lock_guard lock(found->device->mutex);
    found->device->core.graph_memory().hold(found->arena);
  }
  *exec = handle_of<cudaGraphExec_t>(made);
  return cudaSuccess;
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
  }
  return cudaGraphExecUpdateSuccess;
}

std::uint64_t attribute_of(const GraphUsage& usage, int attribute) {
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

}  // namespace

cudaError_t api_instantiate(ThreadState& thread, cudaGraphExec_t* exec, cudaGraph_t graph,
                            unsigned long long flags) {
  const std::lock_guard lock(graph_mutex());
  bool is_circle = false;
  return instantiate(thread, exec, graph, flags, &is_circle);
}

cudaError_t api_instantiate_with(ThreadState& thread, cudaGraphExec_t* exec, cudaGraph_t graph,
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
    error = api_upload(thread, *exec, parameters->uploadStream);
    if (error != cudaSuccess) static_cast<void>(api_exec_destroy(thread, *exec));
  }
  parameters->errNode_out = nullptr;
  parameters->result_out = error == cudaSuccess ? cudaGraphInstantiateSuccess
                           : is_circle          ? cudaGraphInstantiateInvalidStructure
                                                : cudaGraphInstantiateError;
  return error;
}

cudaError_t api_exec_destroy(ThreadState& /*thread*/, cudaGraphExec_t exec) {
  const std::lock_guard lock(graph_mutex());
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

cudaError_t api_exec_flags(ThreadState& /*thread*/, cudaGraphExec_t exec,
                           unsigned long long* flags) {
  const std::lock_guard lock(graph_mutex());
  const SimGraphExec* const found = resolve_exec(exec);
  if (found == nullptr || flags == nullptr) return cudaErrorInvalidValue;
  *flags = found->flags;
  return cudaSuccess;
}

cudaError_t api_exec_update(ThreadState& /*thread*/, cudaGraphExec_t exec, cudaGraph_t graph,
                            cudaGraphExecUpdateResultInfo* result) {
  const std::lock_guard lock(graph_mutex());
  SimGraphExec* const found = resolve_exec(exec);
  const SimGraph* const source = resolve_graph(graph);
  if (found == nullptr || source == nullptr || result == nullptr) return cudaErrorInvalidValue;
  std::shared_ptr<const GraphPlan> plan = make_plan(*source);
  *result = {};
  result->result = plan == nullptr ? cudaGraphExecUpdateError : compare(*found->plan, *plan);
  if (result->result != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;
  found->plan = std::move(plan);
  return cudaSuccess;
}

cudaError_t api_get_graph_memory(ThreadState& thread, int index, int attribute, void* value) {
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

cudaError_t api_set_graph_memory(ThreadState& thread, int index, int attribute, const void* value) {
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

cudaError_t api_trim_graph_memory(ThreadState& thread, int index) {
  SimulatedDevice* const device = device_at(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  const TickScope ticks(thread);
  thread.charge(CostId::PoolTrim);
  const std::lock_guard lock(device->mutex);
  const Outcome outcome = device->core.graph_memory().trim(thread.now_ns());
  charge_work(thread, *device, outcome.work);
  return to_error(outcome.status);
}

}  // namespace simcuda

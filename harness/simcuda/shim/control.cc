// The control interface (simcu.h): clocks, work without kernels, gates, faults, counters, the call
// log, views.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/call_watch.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/fault_plan.h"
#include "harness/simcuda/shim/function_names.h"
#include "harness/simcuda/shim/gaps.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/host_memory.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/touches.h"

namespace simcuda {
namespace {

// Calls since the process began, of functions and of stubs.
std::map<std::string, std::uint64_t, std::less<>> all_counts() {
  std::map<std::string, std::uint64_t, std::less<>> counts;
  for (const auto& [name, gap] : all_gaps()) counts[name] = gap.call_count;
  for (const ApiRecord* record = first_api(); record != nullptr; record = record->next) {
    counts[record->name] += call_count(*record);
  }
  return counts;
}

// The same of one name.
std::uint64_t count_of(const std::string& name) {
  const Gaps gaps = all_gaps();
  const auto gap = gaps.find(name);
  const std::uint64_t missing_count = gap == gaps.end() ? 0 : gap->second.call_count;
  const ApiRecord* const record = find_api(name);
  return missing_count + (record == nullptr ? 0 : call_count(*record));
}

// Counts at the last simcu_reset: calls are counted by their threads, which nobody else may change.
struct Baseline {
  std::mutex mutex;
  std::map<std::string, std::uint64_t, std::less<>> counts;
};
Baseline& baseline() { return made_once<Baseline>(); }

std::uint64_t count_since_reset(const std::string& name, std::uint64_t count) {
  const std::lock_guard lock(baseline().mutex);
  const auto found = baseline().counts.find(name);
  return found == baseline().counts.end() ? count : count - found->second;
}

enum class LaunchCost : std::uint8_t { Charged, Free };

// simcu_launch, simcu_enqueue and simcu_launch_gated; `as_node` makes what a capture keeps.
template <class AsNode, class Enqueue>
int enqueue(void* stream, LaunchCost cost, AsNode as_node, Enqueue operation) {
  see_devices();
  ThreadState& thread = this_thread();
  if (current_device(thread) == nullptr) return cudaErrorNoDevice;
  const StreamRef ref = resolve_stream(thread, static_cast<cudaStream_t>(stream));
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  if (cost == LaunchCost::Charged) thread.charge(CostId::Launch);
  if (ref.captured) [[unlikely]] {
    if (const Captured captured = capture_work(ref, as_node())) return *captured;
  }
  const std::lock_guard lock(ref.device->mutex);
  const Outcome outcome = operation(ref.device->core.streams(), ref.id, thread.now_ns());
  charge_work(thread, *ref.device, outcome.work);
  return to_error(outcome.status);
}

int enqueue_work(void* stream, LaunchCost cost, std::uint64_t duration_ns) {
  const auto as_node = [&]() -> NodeWork {
    return {.kind = NodeKind::Work, .type = cudaGraphNodeTypeKernel, .run = [duration_ns] {
              return NodeRun{.duration_ns = duration_ns};
            }};
  };
  return enqueue(stream, cost, as_node, [&](StreamOrder& order, StreamId id, std::uint64_t now_ns) {
    return order.launch(id, duration_ns, now_ns);
  });
}

// Of all devices that CUDA shows, each with its lock held.
template <class Ask>
std::uint64_t sum_over_devices(Ask ask) {
  see_devices();
  std::uint64_t sum = 0;
  for (int i = 0; i < device_count(); ++i) {
    const std::lock_guard lock(device_at(i)->mutex);
    sum += ask(device_at(i)->core);
  }
  return sum;
}

// simcu_stream_end and simcu_device_end.
template <class Ask>
int ask_end(SimulatedDevice* device, std::uint64_t* end_ns, Ask ask) {
  if (device == nullptr) return cudaErrorInvalidResourceHandle;
  if (end_ns == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(device->mutex);
  const Finish finish = ask(device->core.streams());
  if (finish.status != Status::Ok) {
    return finish.status == Status::Blocked ? cudaErrorNotReady : to_error(finish.status);
  }
  *end_ns = finish.finish_ns;
  return cudaSuccess;
}

}  // namespace

extern "C" {

SIMCU_API int simcu_present(void) { return SIMCU_VERSION; }

SIMCU_API const SimcuThreadClock* simcu_thread_clock(void) { return &this_thread().clock; }

SIMCU_API int simcu_launch(void* stream, uint64_t duration_ns) {
  return enqueue_work(stream, LaunchCost::Charged, duration_ns);
}

SIMCU_API int simcu_enqueue(void* stream, uint64_t duration_ns) {
  return enqueue_work(stream, LaunchCost::Free, duration_ns);
}

SIMCU_API void simcu_pass_time(uint64_t duration_ns) {
  see_devices();
  this_thread().clock.modelled_ns += duration_ns;
}

SIMCU_API int simcu_stream_end(void* stream, uint64_t* end_ns) {
  see_devices();
  ThreadState& thread = this_thread();
  const StreamRef ref = resolve_stream(thread, static_cast<cudaStream_t>(stream));
  return ask_end(ref.device, end_ns,
                 [&](StreamOrder& order) { return order.stream_finish(ref.id, thread.now_ns()); });
}

SIMCU_API int simcu_device_end(uint64_t* end_ns) {
  see_devices();
  ThreadState& thread = this_thread();
  return ask_end(current_device(thread), end_ns,
                 [&](StreamOrder& order) { return order.device_finish(thread.now_ns()); });
}

SIMCU_API int simcu_launch_gated(void* stream, uint64_t gate) {
  const auto as_node = [&] {
    return NodeWork{.kind = NodeKind::Gate, .type = cudaGraphNodeTypeKernel, .gate = gate};
  };
  return enqueue(stream, LaunchCost::Charged, as_node,
                 [&](StreamOrder& order, StreamId id, std::uint64_t now_ns) {
                   return order.launch_gated(id, gate, now_ns);
                 });
}

SIMCU_API int simcu_open_gate(uint64_t gate) {
  see_devices();
  ThreadState& thread = this_thread();
  for (int i = 0; i < device_count(); ++i) {
    SimulatedDevice& device = *device_at(i);
    {
      const std::lock_guard lock(device.mutex);
      device.core.streams().open_gate(gate, thread.now_ns());
    }
    device.gate_opened.notify_all();
    run_ready_host_functions(device, thread);
  }
  return cudaSuccess;
}

SIMCU_API int simcu_register_kernel(const char* name_part, SimcuKernelModel model, void* context) {
  if (name_part == nullptr || *name_part == '\0' || model == nullptr) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   "simcu_register_kernel: wanted a name and a function");
  }
  add_kernel_model(name_part, model, context);
  return cudaSuccess;
}

SIMCU_API int simcu_register_arguments(const char* name_part, const uint64_t* sizes_bytes,
                                       uint32_t count) {
  if (name_part == nullptr || *name_part == '\0' || (sizes_bytes == nullptr && count != 0)) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   "simcu_register_arguments: wanted a name and the sizes of the arguments");
  }
  add_kernel_arguments(name_part, {sizes_bytes, sizes_bytes + count});
  return cudaSuccess;
}

SIMCU_API void* simcu_view(const void* device_pointer, uint64_t size_bytes) {
  see_devices();
  const std::uint64_t address = number(device_pointer);
  SimulatedDevice* device = device_of_address(address);
  if (device == nullptr) return nullptr;
  tell_touch(device_pointer, size_bytes);
  acquire(device);  // memory that another thread gave back or worked on
  const std::lock_guard lock(device->mutex);
  void* const view = device->view(address, size_bytes);
  if (view != nullptr && size_bytes != 0 &&
      (slow_reasons.load(std::memory_order_relaxed) & kGpuFaults) != 0 &&
      next_view_is_corrupt(device->node_index)) {
    static_cast<unsigned char*>(view)[size_bytes / 2] ^= 1;
  }
  return view;
}

SIMCU_API void simcu_watch_touches(SimcuTouch touch, void* context) {
  watch_touches(touch, context);
}

SIMCU_API void simcu_watch_calls(SimcuCallWatch watch, void* context) {
  watch_calls(watch, context);
}

SIMCU_API int simcu_fail_calls(const char* api, uint64_t nth, uint64_t count, int error) {
  if (api == nullptr) {
    clear_faults();
    return cudaSuccess;
  }
  if (const std::string wrong = wrong_fault_name(api); !wrong.empty()) {
    return explain(this_thread(), cudaErrorInvalidValue, "simcu_fail_calls: " + wrong);
  }
  if (nth == 0 || error <= 0) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   "simcu_fail_calls: wanted nth from 1 and an error above 0");
  }
  see_devices();
  add_fault(api, {.nth = nth, .count = count, .error = error});
  return cudaSuccess;
}

SIMCU_API uint64_t simcu_call_count(const char* api) {
  if (api != nullptr && !is_exported(api)) {
    this_thread().last_message = "simcu_call_count: " + no_such_function(api);
    return SIMCU_NO_SUCH_CALL;
  }
  if (api != nullptr) return count_since_reset(api, count_of(api));
  std::uint64_t total = 0;
  for (const auto& [name, count] : all_counts()) total += count_since_reset(name, count);
  return total;
}

SIMCU_API uint64_t simcu_thread_calls(uint64_t* counts, uint64_t capacity) {
  const ThreadState& thread = this_thread();
  const std::size_t count = api_count();
  for (std::size_t i = 0; i < std::min<std::size_t>(count, capacity); ++i) {
    counts[i] = thread.calls[i].load(std::memory_order_relaxed);
  }
  return count;
}

SIMCU_API const char* simcu_call_name(uint64_t index) {
  for (const ApiRecord* record = first_api(); record != nullptr; record = record->next) {
    if (record->index == index) return record->name;
  }
  return nullptr;
}

SIMCU_API int simcu_allocation_of(const void* device_pointer, uint64_t* base, uint64_t* size_bytes,
                                  int* device_index) {
  see_devices();
  const std::uint64_t address = number(device_pointer);
  SimulatedDevice* device = device_of_address(address);
  if (device == nullptr) return cudaErrorInvalidValue;
  const std::lock_guard lock(device->mutex);
  const Range range = device->core.find(address).range;
  if (range.empty()) return cudaErrorInvalidValue;
  *base = range.lo;
  *size_bytes = range.size_bytes();
  *device_index = device->index;
  return cudaSuccess;
}

SIMCU_API void simcu_reset(void) {
  const std::map<std::string, std::uint64_t, std::less<>> now = all_counts();
  {
    const std::lock_guard lock(baseline().mutex);
    baseline().counts = now;
  }
  clear_faults();
}

SIMCU_API uint64_t simcu_unimplemented_count(void) { return call_count_of(all_gaps()); }

SIMCU_API const char* simcu_unimplemented_names(void) {
  static thread_local std::string names;
  names = names_of(all_gaps());
  return names.c_str();
}

SIMCU_API int simcu_call_log(const char* path) {
  see_devices();
  return set_call_log(path);
}

SIMCU_API uint64_t simcu_used_bytes(void) {
  return sum_over_devices([](const Device& core) { return core.used_bytes(); });
}

SIMCU_API uint64_t simcu_pinned_bytes(void) {
  return sum_over_devices([](const Device& core) { return core.pinned_bytes(); });
}

SIMCU_API int simcu_pinned_range(const void* pointer, uint64_t* base, uint64_t* size_bytes) {
  see_devices();
  const Range range = pinned_range(pointer);
  if (range.empty()) return cudaErrorInvalidValue;
  *base = range.lo;
  *size_bytes = range.size_bytes();
  return cudaSuccess;
}

SIMCU_API void simcu_take_memory_extremes(uint64_t* used_bytes_max, uint64_t* refused_bytes_min) {
  see_devices();
  int index = 0;
  if (cudaGetDevice(&index) != cudaSuccess || index >= device_count()) return;
  const std::lock_guard lock(device_at(index)->mutex);
  const auto extremes = device_at(index)->core.take_extremes();
  *used_bytes_max = extremes.used_bytes_max;
  *refused_bytes_min = extremes.refused_bytes_min;
}

SIMCU_API int simcu_shared_host(SimcuSharedHost* host) {
  see_devices();
  SimulatedDevice* const device = current_device(this_thread());
  if (device == nullptr) return 0;
  const SharedHost& shared = device->core.config().host;
  if (!shared.is_one_pool && shared.cached_bytes == 0) return 0;
  const std::lock_guard lock(device->mutex);
  const PhysicalMemory& memory = device->core.memory();
  *host = {.total_bytes = memory.total_bytes(),
           .free_bytes = memory.free_bytes(),
           .available_bytes = memory.available_bytes(),
           .reserve_bytes = shared.reserve_bytes,
           .lost = memory.host_is_lost() ? 1 : 0};
  return 1;
}

SIMCU_API int simcu_hold_host(uint64_t size_bytes) {
  see_devices();
  SimulatedDevice* const device = current_device(this_thread());
  if (device == nullptr) return cudaErrorNoDevice;
  const std::lock_guard lock(device->mutex);
  PhysicalMemory& memory = device->core.memory();
  const std::uint64_t held_bytes = device->held_host_bytes;
  if (size_bytes > held_bytes && !memory.take_host(size_bytes - held_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  if (size_bytes < held_bytes) memory.return_host(held_bytes - size_bytes);
  device->held_host_bytes = size_bytes;
  return cudaSuccess;
}

SIMCU_API void simcu_restart_host(void) {
  see_devices();
  SimulatedDevice* const device = current_device(this_thread());
  if (device == nullptr) return;
  const std::lock_guard lock(device->mutex);
  device->core.memory().restart_host();
}

SIMCU_API const char* simcu_last_message(void) { return this_thread().last_message.c_str(); }

}  // extern "C"

}  // namespace simcuda

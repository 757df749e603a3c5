// The control interface (simcu.h): clocks, work without kernels, gates, faults, counters, the call
// log, views.
#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "base/nearest.h"
#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/fault_plan.h"
#include "harness/simcuda/shim/gpu_faults.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/library.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

// Calls of functions that only exist as stubs.
struct Unimplemented {
  std::mutex mutex;
  std::map<std::string, std::uint64_t, std::less<>> counts;
  std::string names;  // what simcu_unimplemented_names returned last
};
Unimplemented& unimplemented() { return made_once<Unimplemented>(); }

std::uint64_t unimplemented_count(const char* name) {
  Unimplemented& all = unimplemented();
  const std::lock_guard lock(all.mutex);
  std::uint64_t count = 0;
  for (const auto& [api, calls] : all.counts) {
    count += name == nullptr || api == name ? calls : 0;
  }
  return count;
}

void start_if_needed() {
  if ((slow_reasons.load() & kNotStarted) != 0) {
    start_library();
  }
}

bool known_api(const std::string& name) {
  for (const ApiRecord* api = first_api(); api != nullptr; api = api->next) {
    if (name == api->name) {
      return true;
    }
  }
  return false;
}

std::vector<std::string> api_names() {
  std::vector<std::string> names;
  for (const ApiRecord* api = first_api(); api != nullptr; api = api->next) {
    names.emplace_back(api->name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// simcu_launch and simcu_launch_gated.
template <class Enqueue>
int enqueue(void* stream, Enqueue operation) {
  start_if_needed();
  ThreadState& thread = this_thread();
  if (current_device(thread) == nullptr) {
    return cudaErrorNoDevice;
  }
  const StreamRef ref = resolve_stream(thread, static_cast<cudaStream_t>(stream));
  if (ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  thread.charge(CostId::Launch);
  const std::lock_guard lock(ref.device->mutex);
  const Outcome outcome = operation(ref.device->core.streams(), ref.id, thread.now_ns());
  charge_work(thread, *ref.device, outcome.work);
  return to_error(outcome.status);
}

}  // namespace

extern "C" int simcuda_unimplemented(const char* name) {
  Unimplemented& all = unimplemented();
  {
    const std::lock_guard lock(all.mutex);
    ++all.counts[name];
  }
  ThreadState& thread = this_thread();
  thread.last_error = cudaErrorNotSupported;
  return explain(thread, cudaErrorNotSupported,
                 std::string(name) + " is not implemented by simcuda");
}

extern "C" {

SIMCU_API int simcu_present(void) { return SIMCU_VERSION; }

SIMCU_API const SimcuThreadClock* simcu_thread_clock(void) { return &this_thread().clock; }

SIMCU_API int simcu_launch(void* stream, uint64_t duration_ns) {
  return enqueue(stream, [&](StreamOrder& order, StreamId id, std::uint64_t now_ns) {
    return order.launch(id, duration_ns, now_ns);
  });
}

SIMCU_API int simcu_launch_gated(void* stream, uint64_t gate) {
  return enqueue(stream, [&](StreamOrder& order, StreamId id, std::uint64_t now_ns) {
    return order.launch_gated(id, gate, now_ns);
  });
}

SIMCU_API int simcu_open_gate(uint64_t gate) {
  start_if_needed();
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

SIMCU_API void* simcu_view(const void* device_pointer, uint64_t size_bytes) {
  start_if_needed();
  const std::uint64_t address = number(device_pointer);
  SimulatedDevice* device = device_of_address(address);
  if (device == nullptr) {
    return nullptr;
  }
  const std::lock_guard lock(device->mutex);
  void* const view = device->view(address, size_bytes);
  if (view != nullptr && size_bytes != 0 &&
      (slow_reasons.load(std::memory_order_relaxed) & kGpuFaults) != 0 &&
      next_view_is_corrupt(device->index)) {
    static_cast<unsigned char*>(view)[size_bytes / 2] ^= 1;
  }
  return view;
}

SIMCU_API int simcu_fail_calls(const char* api, uint64_t nth, uint64_t count, int error) {
  if (api == nullptr) {
    clear_faults();
    return cudaSuccess;
  }
  if (!known_api(api)) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   std::string("simcu_fail_calls: no function '") + api + "'; " +
                       allocmark::suggest(api, api_names()));
  }
  if (nth == 0 || error <= 0) {
    return explain(this_thread(), cudaErrorInvalidValue,
                   "simcu_fail_calls: wanted nth from 1 and an error above 0");
  }
  start_if_needed();
  add_fault(api, {.nth = nth, .count = count, .error = error});
  return cudaSuccess;
}

SIMCU_API uint64_t simcu_call_count(const char* api) {
  std::uint64_t count = unimplemented_count(api);
  for (const ApiRecord* record = first_api(); record != nullptr; record = record->next) {
    if (api == nullptr || std::string(api) == record->name) {
      count += call_count(*record);
    }
  }
  return count;
}

SIMCU_API uint64_t simcu_unimplemented_count(void) { return unimplemented_count(nullptr); }

SIMCU_API const char* simcu_unimplemented_names(void) {
  Unimplemented& all = unimplemented();
  const std::lock_guard lock(all.mutex);
  all.names.clear();
  for (const auto& [api, calls] : all.counts) {
    all.names += (all.names.empty() ? "" : ",") + api;
  }
  return all.names.c_str();
}

SIMCU_API int simcu_call_log(const char* path) {
  start_if_needed();
  return set_call_log(path);
}

SIMCU_API uint64_t simcu_used_bytes(void) {
  start_if_needed();
  std::uint64_t used_bytes = 0;
  for (int i = 0; i < device_count(); ++i) {
    const std::lock_guard lock(device_at(i)->mutex);
    used_bytes += device_at(i)->core.used_bytes();
  }
  return used_bytes;
}

SIMCU_API const char* simcu_last_message(void) { return this_thread().last_message.c_str(); }

}  // extern "C"

}  // namespace simcuda

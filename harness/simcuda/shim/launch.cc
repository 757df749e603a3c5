// Kernels: registration of device code by nvcc's start-up code, launches, host models of kernels,
// and host functions in streams. In: what nvcc-compiled programs call. Out: virtual work on
// streams; a kernel without a host model is an error, since skipping it silently would leave wrong
// data behind a success.
#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/host_functions.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {
namespace {

struct Model {
  std::string name_part;
  SimcuKernelModel function = nullptr;
  void* context = nullptr;
};

struct Arguments {
  std::string name_part;
  std::vector<std::uint64_t> sizes_bytes;
};

struct Kernels {
  std::mutex mutex;
  std::vector<Arguments> arguments;                    // later ones win
  std::unordered_map<const void*, std::string> names;  // host stub -> mangled device name
  std::vector<Model> models;                           // later ones win
};
Kernels& kernels() {
  return made_once<Kernels>();  // used by static constructors of programs
}

std::string kernel_name(const void* function) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  const auto found = all.names.find(function);
  return found == all.names.end() ? std::string() : found->second;
}

Model find_model(const std::string& name) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  for (auto model = all.models.rbegin(); model != all.models.rend(); ++model) {
    if (name.find(model->name_part) != std::string::npos) {
      return *model;
    }
  }
  return {};
}

// A launch's arguments, which its caller keeps no longer than the call.
struct KeptArguments {
  std::vector<std::unique_ptr<std::byte[]>> values;
  std::vector<void*> pointers;
};

// Null where the sizes are not known.
std::shared_ptr<KeptArguments> keep_arguments(const std::string& name, void** arguments) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  for (auto known = all.arguments.rbegin(); known != all.arguments.rend(); ++known) {
    if (name.find(known->name_part) == std::string::npos) continue;
    auto kept = std::make_shared<KeptArguments>();
    for (std::size_t i = 0; i < known->sizes_bytes.size(); ++i) {
      kept->values.push_back(std::make_unique<std::byte[]>(known->sizes_bytes[i]));
      std::memcpy(kept->values.back().get(), arguments[i], known->sizes_bytes[i]);
      kept->pointers.push_back(kept->values.back().get());
    }
    return kept;
  }
  return nullptr;
}

Captured capture_kernel(ThreadState& thread, const StreamRef& ref, const std::string& name,
                        const Model& model, void** arguments) {
  const std::shared_ptr<KeptArguments> kept = keep_arguments(name, arguments);
  if (kept == nullptr) {
    return explain(thread, cudaErrorNotSupported,
                   "kernel " + name +
                       " is captured, and the sizes of its arguments are not known; tell them by "
                       "simcu_register_arguments");
  }
  return capture_work(
      ref, {.kind = NodeKind::Work, .type = cudaGraphNodeTypeKernel, .run = [kept, model] {
              return NodeRun{.duration_ns = model.function(kept->pointers.data(), model.context)};
            }});
}

cudaError_t launch(ThreadState& thread, const void* function, void** arguments,
                   cudaStream_t stream) {
  const StreamRef ref =
      current_device(thread) == nullptr ? StreamRef{} : resolve_stream(thread, stream);
  if (ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  const std::string name = kernel_name(function);
  if (name.empty()) {
    return explain(thread, cudaErrorInvalidDeviceFunction,
                   "launch of a function that was never registered");
  }
  const Model model = find_model(name);
  if (model.function == nullptr) {
    return explain(
        thread, cudaErrorNotSupported,
        "kernel " + name + " has no host model; register one with simcu_register_kernel");
  }
  thread.charge(CostId::Launch);
  if (ref.captured) [[unlikely]] {
    if (const Captured captured = capture_kernel(thread, ref, name, model, arguments)) {
      return *captured;
    }
  }
  const std::uint64_t duration_ns = model.function(arguments, model.context);
  const std::lock_guard lock(ref.device->mutex);
  const Outcome outcome = ref.device->core.streams().launch(ref.id, duration_ns, thread.now_ns());
  charge_work(thread, *ref.device, outcome.work);
  return to_error(outcome.status);
}

cudaError_t launch_host_function(ThreadState& thread, cudaStream_t stream, cudaHostFn_t function,
                                 void* data) {
  const StreamRef ref =
      current_device(thread) == nullptr ? StreamRef{} : resolve_stream(thread, stream);
  if (ref.device == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  if (function == nullptr) {
    return cudaErrorInvalidValue;
  }
  thread.charge(CostId::Launch);
  if (ref.captured) [[unlikely]] {
    const Captured captured = capture_work(ref, {.kind = NodeKind::HostFunction,
                                                 .type = cudaGraphNodeTypeHost,
                                                 .function = function,
                                                 .data = data});
    if (captured) return *captured;
  }
  return enqueue_host_function(thread, *ref.device, ref.id, {function, data});
}

}  // namespace

cudaError_t enqueue_host_function(ThreadState& thread, SimulatedDevice& device, StreamId stream,
                                  HostFunction what) {
  {
    const std::lock_guard lock(device.mutex);
    StreamOrder& order = device.core.streams();
    const EventId after = order.create_event();
    const Status status = order.record(after, stream, thread.now_ns());
    if (status != Status::Ok) {
      return to_error(status);
    }
    device.host_functions.push_back({.after = after, .function = what.function, .data = what.data});
  }
  run_ready_host_functions(device, thread);
  return cudaSuccess;
}

void run_ready_host_functions(SimulatedDevice& device, ThreadState& /*thread*/) {
  std::unique_lock lock(device.mutex);
  std::size_t at = 0;
  while (at < device.host_functions.size()) {
    const PendingHostFunction next = device.host_functions[at];
    StreamOrder& order = device.core.streams();
    if (order.event_finish(next.after).status == Status::Blocked) {
      ++at;
      continue;
    }
    device.host_functions.erase(device.host_functions.begin() + static_cast<std::ptrdiff_t>(at));
    // Whatever the function tells the rest of the host comes after it.
    if (order.followed() != nullptr) order.followed()->host_saw(next.after);
    static_cast<void>(order.destroy_event(next.after));
    lock.unlock();
    next.function(next.data);
    lock.lock();
    at = 0;
  }
}

void add_kernel_model(const char* name_part, SimcuKernelModel model, void* context) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.models.push_back({.name_part = name_part, .function = model, .context = context});
}

void add_kernel_arguments(const char* name_part, std::vector<std::uint64_t> sizes_bytes) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.arguments.push_back({.name_part = name_part, .sizes_bytes = std::move(sizes_bytes)});
}

// ---- start-up code of objects with device code; runs before main, so nothing here starts the
// library

SIMCUDA_EXPORT void** __cudaRegisterFatBinary(void* binary) {
  return new void*(binary);  // freed by __cudaUnregisterFatBinary
}

SIMCUDA_EXPORT void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}

SIMCUDA_EXPORT void __cudaUnregisterFatBinary(void** handle) { delete handle; }

SIMCUDA_EXPORT char __cudaInitModule(void** /*handle*/) { return 0; }

SIMCUDA_EXPORT void __cudaRegisterFunction(void** /*handle*/, const char* host_function,
                                           char* /*device_function*/, const char* device_name,
                                           int /*thread_limit*/, uint3* /*thread_index*/,
                                           uint3* /*block_index*/, dim3* /*block*/, dim3* /*grid*/,
                                           int* /*warp*/) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.names[host_function] = device_name;
}

SIMCUDA_EXPORT void __cudaRegisterVar(void** /*handle*/, char* /*host_variable*/,
                                      char* /*device_address*/, const char* /*device_name*/,
                                      int /*is_external*/, size_t /*size_bytes*/,
                                      int /*is_constant*/, int /*is_global*/) {}

// ---- launches

SIMCUDA_EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block,
                                                    size_t shared_memory_bytes,
                                                    cudaStream_t stream) {
  this_thread().launch_configurations.push_back(
      {.grid = grid, .block = block, .shared_memory_bytes = shared_memory_bytes, .stream = stream});
  return 0;
}

SIMCUDA_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block,
                                                      size_t* shared_memory_bytes, void* stream) {
  std::vector<LaunchConfiguration>& stack = this_thread().launch_configurations;
  if (stack.empty()) {
    return cudaErrorMissingConfiguration;
  }
  const LaunchConfiguration top = stack.back();
  stack.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_memory_bytes = top.shared_memory_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

SIMCUDA_EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 /*grid*/, dim3 /*block*/,
                                            void** arguments, size_t /*shared_memory_bytes*/,
                                            cudaStream_t stream) {
  return runtime_call<"cudaLaunchKernel">(
      {number(function), number(stream)},
      [&](ThreadState& thread) { return launch(thread, function, arguments, stream); });
}

SIMCUDA_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration,
                                               const void* function, void** arguments) {
  return runtime_call<"cudaLaunchKernelExC">({number(function)}, [&](ThreadState& thread) {
    return configuration == nullptr ? cudaErrorInvalidValue
                                    : launch(thread, function, arguments, configuration->stream);
  });
}

// CUDA 13 launches go through a kernel handle; ours is the host stub itself.
SIMCUDA_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

SIMCUDA_EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                              void** arguments, size_t shared_memory_bytes,
                                              cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, arguments,
                          shared_memory_bytes, stream);
}

SIMCUDA_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                              void* data) {
  return runtime_call<"cudaLaunchHostFunc">({number(stream)}, [&](ThreadState& thread) {
    return launch_host_function(thread, stream, function, data);
  });
}

// Host code of CUB and Thrust asks for the binary's version before it launches.
SIMCUDA_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                 const void* function) {
  return runtime_call<"cudaFuncGetAttributes">({number(function)}, [&](ThreadState& thread) {
    const SimulatedDevice* device = current_device(thread);
    if (device == nullptr || attributes == nullptr) {
      return device == nullptr ? cudaErrorNoDevice : cudaErrorInvalidValue;
    }
    if (kernel_name(function).empty()) {
      return cudaErrorInvalidDeviceFunction;
    }
    const auto attribute = [&](cudaDeviceAttr id) { return device->profile.attributes.at(id); };
    const int version = 10 * attribute(cudaDevAttrComputeCapabilityMajor) +
                        attribute(cudaDevAttrComputeCapabilityMinor);
    *attributes = {};
    attributes->binaryVersion = version;
    attributes->ptxVersion = version;
    attributes->maxThreadsPerBlock = attribute(cudaDevAttrMaxThreadsPerBlock);
    return cudaSuccess;
  });
}

}  // namespace simcuda

// Kernels: registration of device code by nvcc's start-up code, launches, host models of kernels.
// In: what nvcc-compiled programs call. Out: virtual work on streams. A kernel without a host model
// or a duration is an error, since skipping it silently would leave wrong data behind a success.

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/capture.h"
#include "harness/simcuda/shim/gaps.h"
#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/static_runtime.h"
#include "harness/simcuda/shim/twins.h"

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
  std::set<void**> binaries;                           // registered and not unregistered
};
Kernels& kernels() {
  return made_once<Kernels>();  // used by static constructors of programs
}

}  // namespace

std::string registered_kernel_name(const void* function) {
  Kernels& all = kernels();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.names.find(function);
    if (found != all.names.end()) return found->second;
  }
  if (const char* const name = kernel_name(function); name != nullptr) return name;
  // To find the module takes longer than a launch, so its answer is kept.
  std::string name = kernel_of_redirected_module(function);
  if (name.empty()) return name;
  const std::lock_guard lock(all.mutex);
  return all.names.try_emplace(function, std::move(name)).first->second;
}

namespace {

// The last one whose part is in the name; null where none is.
template <class Rule>
const Rule* last_for(const std::vector<Rule>& rules, const std::string& name) {
  const auto found = std::find_if(rules.rbegin(), rules.rend(), [&](const Rule& rule) {
    return name.find(rule.name_part) != std::string::npos;
  });
  return found == rules.rend() ? nullptr : &*found;
}

Model find_model(const std::string& name) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  const Model* const model = last_for(all.models, name);
  return model == nullptr ? Model{} : *model;
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
  const Arguments* const known = last_for(all.arguments, name);
  if (known == nullptr) return nullptr;
  auto kept = std::make_shared<KeptArguments>();
  for (std::size_t i = 0; i < known->sizes_bytes.size(); ++i) {
    kept->values.push_back(std::make_unique<std::byte[]>(known->sizes_bytes[i]));
    std::memcpy(kept->values.back().get(), arguments[i], known->sizes_bytes[i]);
    kept->pointers.push_back(kept->values.back().get());
  }
  return kept;
}

cudaError_t refuse_kernel(ThreadState& thread, const std::string& name) {
  return lack(thread, kKernelGap + name,
              "kernel " + name +
                  " has no host model; register one with simcu_register_kernel, or let kernels do "
                  "nothing: simcuda-run --kernels nothing");
}

}  // namespace

MadeWork kernel_work(ThreadState& thread, const std::string& name, void** arguments) {
  const Model model = find_model(name);
  NodeWork work{.kind = NodeKind::Work, .type = cudaGraphNodeTypeKernel};
  if (model.function == nullptr || arguments == nullptr) {
    const std::optional<std::uint64_t> idle_ns = kernel_duration_ns(name);
    if (!idle_ns) return {refuse_kernel(thread, name)};
    work.run = [idle_ns] { return NodeRun{.duration_ns = *idle_ns}; };
    return {.work = std::move(work)};
  }
  const std::shared_ptr<KeptArguments> kept = keep_arguments(name, arguments);
  if (kept == nullptr) {
    return {explain(thread, cudaErrorNotSupported,
                    "kernel " + name +
                        " is captured, and the sizes of its arguments are not known; tell them by "
                        "simcu_register_arguments")};
  }
  work.run = [kept, model] {
    return NodeRun{.duration_ns = model.function(kept->pointers.data(), model.context)};
  };
  return {.work = std::move(work)};
}

cudaError_t launch_kernel(ThreadState& thread, const std::string& name, void** arguments,
                          cudaStream_t stream) {
  const StreamRef ref = resolve_stream(thread, stream);
  if (ref.device == nullptr) return cudaErrorInvalidResourceHandle;
  const Model model = find_model(name);
  const bool has_model = model.function != nullptr && arguments != nullptr;
  const std::optional<std::uint64_t> idle_ns = has_model ? std::nullopt : kernel_duration_ns(name);
  if (!has_model && !idle_ns) return refuse_kernel(thread, name);
  thread.charge(CostId::Launch);
  if (ref.captured) [[unlikely]] {
    MadeWork made = kernel_work(thread, name, arguments);
    if (made.error != cudaSuccess) return made.error;
    if (const Captured captured = capture_work(ref, std::move(made.work))) return *captured;
  }
  const std::uint64_t duration_ns = has_model ? model.function(arguments, model.context) : *idle_ns;
  const std::lock_guard lock(ref.device->mutex);
  const Outcome outcome = ref.device->core.streams().launch(ref.id, duration_ns, thread.now_ns());
  charge_work(thread, *ref.device, outcome.work);
  return to_error(outcome.status);
}

namespace {

cudaError_t launch(ThreadState& thread, const void* function, void** arguments,
                   cudaStream_t stream) {
  const std::string name = registered_kernel_name(function);
  if (name.empty()) {
    return explain(thread, cudaErrorInvalidDeviceFunction,
                   "launch of a function that was never registered");
  }
  return launch_kernel(thread, name, arguments, stream);
}

}  // namespace

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
  auto* const handle = new void*(binary);  // freed by __cudaUnregisterFatBinary
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  all.binaries.insert(handle);
  return handle;
}

SIMCUDA_EXPORT void __cudaRegisterFatBinaryEnd(void** /*handle*/) {}

// A module that is opened later registers with its static runtime, before its calls come to us.
SIMCUDA_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  Kernels& all = kernels();
  const std::lock_guard lock(all.mutex);
  if (all.binaries.erase(handle) != 0) delete handle;
}

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
  if (stack.empty()) return cudaErrorMissingConfiguration;
  const LaunchConfiguration top = stack.back();
  stack.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_memory_bytes = top.shared_memory_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

SIMCUDA_RUNTIME(cudaLaunchKernel,
                (const void* function, dim3 /*grid*/, dim3 /*block*/, void** arguments,
                 size_t /*shared_memory_bytes*/, cudaStream_t stream),
                (number(function), number(stream)), launch(thread, function, arguments, stream))

SIMCUDA_RUNTIME(cudaLaunchKernelExC,
                (const cudaLaunchConfig_t* configuration, const void* function, void** arguments),
                (number(function)),
                configuration == nullptr
                    ? cudaErrorInvalidValue
                    : launch(thread, function, arguments, configuration->stream))

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

SIMCUDA_RUNTIME(cudaLaunchCooperativeKernel,
                (const void* function, dim3 /*grid*/, dim3 /*block*/, void** arguments,
                 size_t /*shared_memory_bytes*/, cudaStream_t stream),
                (number(function), number(stream)), launch(thread, function, arguments, stream))

SIMCUDA_RUNTIME(cudaFuncSetAttribute,
                (const void* function, cudaFuncAttribute attribute, int value),
                (number(function), as_number(attribute), as_number(value)),
                registered_kernel_name(function).empty() ? cudaErrorInvalidDeviceFunction
                                                         : cudaSuccess)

SIMCUDA_RUNTIME(cudaFuncSetCacheConfig, (const void* function, cudaFuncCache /*wanted*/),
                (number(function)),
                registered_kernel_name(function).empty() ? cudaErrorInvalidDeviceFunction
                                                         : cudaSuccess)

// Host code of CUB and Thrust asks for the binary's version before it launches.
SIMCUDA_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                                 const void* function) {
  return runtime_call<"cudaFuncGetAttributes">({number(function)}, [&](ThreadState& thread) {
    const SimulatedDevice* device = current_device(thread);
    if (device == nullptr) return cudaErrorNoDevice;
    if (attributes == nullptr) return cudaErrorInvalidValue;
    if (registered_kernel_name(function).empty()) return cudaErrorInvalidDeviceFunction;
    *attributes = {};
    attributes->binaryVersion = device->architecture();
    attributes->ptxVersion = device->architecture();
    attributes->numRegs = kUnknownRegisterCount;
    attributes->maxThreadsPerBlock = device->attribute(cudaDevAttrMaxThreadsPerBlock);
    return cudaSuccess;
  });
}

}  // namespace simcuda

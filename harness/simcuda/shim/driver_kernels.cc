// The driver's kernels: what is known about them, and launches. In: handles. Out: attributes that
// the image says, and virtual work, which needs a host model or a duration (kernel_models.h).
#include <algorithm>
#include <optional>

#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Block {
  unsigned int x = 1;
  unsigned int y = 1;
  unsigned int z = 1;
};

// Threads that a block of the kernel can have; 0 where the handle is none.
int threads_max(const ThreadState& thread, const LoadedKernel& kernel) {
  const int limit = current_device(thread)->attribute(cudaDevAttrMaxThreadsPerBlock);
  return kernel.facts.threads_max == 0 ? limit : std::min(limit, kernel.facts.threads_max);
}

cudaError_t launch_handle(ThreadState& thread, const void* handle, void** arguments,
                          cudaStream_t stream, Block block) {
  const std::optional<LoadedKernel> kernel = kernel_of(handle);
  if (!kernel || current_device(thread) == nullptr) return cudaErrorInvalidResourceHandle;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > static_cast<std::uint64_t>(threads_max(thread, *kernel))) {
    return cudaErrorInvalidValue;
  }
  return launch_kernel(thread, kernel->facts.name, arguments, stream);
}

// What `ask` says of the kernel.
template <class Out, class Ask>
CUresult give_of_kernel(Out* out, const void* handle, Ask ask) {
  const std::optional<LoadedKernel> kernel = kernel_of(handle);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *out = ask(*kernel);
  return CUDA_SUCCESS;
}

template <class Image>
CUresult give_image(Image* image, const void* handle) {
  return give_of_kernel(image, handle, [](const LoadedKernel& kernel) {
    return reinterpret_cast<Image>(const_cast<void*>(kernel.image));
  });
}

CUresult give_name(const char** name, const void* handle) {
  return give_of_kernel(name, handle, [&](const LoadedKernel&) { return kernel_name(handle); });
}

// A kernel and its function are one object.
CUresult give_function(CUfunction* function, CUkernel kernel) {
  return give_of_kernel(function, kernel,
                        [&](const LoadedKernel&) { return reinterpret_cast<CUfunction>(kernel); });
}

CUresult give_parameter(const void* handle, std::size_t index, std::size_t* offset_bytes,
                        std::size_t* size_bytes) {
  const std::optional<LoadedKernel> kernel = kernel_of(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  if (offset_bytes == nullptr || index >= kernel->facts.parameters.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset_bytes = kernel->facts.parameters[index].offset_bytes;
  if (size_bytes != nullptr) *size_bytes = kernel->facts.parameters[index].size_bytes;
  return CUDA_SUCCESS;
}

int attribute_of(const ThreadState& thread, const LoadedKernel& kernel, int attribute) {
  const SimulatedDevice& device = *current_device(thread);
  if (const auto set = kernel.settings.find(attribute); set != kernel.settings.end()) {
    return set->second;
  }
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return threads_max(thread, kernel);
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      return kernel.facts.shared_bytes;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      return kernel.constant_bytes;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      return kernel.facts.local_bytes;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      return kernel.facts.register_count == 0 ? kUnknownRegisterCount : kernel.facts.register_count;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      return kernel.architecture == 0 ? device.architecture() : kernel.architecture;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      return device.architecture();
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return device.attribute(cudaDevAttrMaxSharedMemoryPerBlock) - kernel.facts.shared_bytes;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return -1;  // the driver chooses
    default:
      return 0;
  }
}

CUresult give_attribute_of(const ThreadState& thread, int* value, CUfunction_attribute attribute,
                           const void* handle) {
  if (value == nullptr || current_device(thread) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<LoadedKernel> kernel = kernel_of(handle);
  if (!kernel) return CUDA_ERROR_INVALID_HANDLE;
  *value = attribute_of(thread, *kernel, attribute);
  return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// What describes the code cannot be set.
CUresult set_attribute_of(CUfunction_attribute attribute, int value, const void* kernel) {
  return attribute < CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                 attribute >= CU_FUNC_ATTRIBUTE_MAX
             ? CUDA_ERROR_INVALID_VALUE
             : set_kernel(kernel, attribute, value);
}

CUresult accept_for(const void* kernel) {
  return kernel_of(kernel) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult give_loading_state(CUfunctionLoadingState* state, const void* kernel) {
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return accept_for(kernel);
}

}  // namespace

SIMCUDA_DRIVER(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (number(kernel)),
               give_function(function, kernel))
SIMCUDA_DRIVER(cuKernelGetLibrary, (CUlibrary * library, CUkernel kernel), (number(kernel)),
               give_image(library, kernel))
SIMCUDA_DRIVER(cuFuncGetModule, (CUmodule * module, CUfunction function), (number(function)),
               give_image(module, function))
SIMCUDA_DRIVER(cuKernelGetName, (const char** name, CUkernel kernel), (number(kernel)),
               give_name(name, kernel))
SIMCUDA_DRIVER(cuFuncGetName, (const char** name, CUfunction function), (number(function)),
               give_name(name, function))
SIMCUDA_DRIVER(cuKernelGetParamInfo,
               (CUkernel kernel, size_t index, size_t* offset_bytes, size_t* size_bytes),
               (number(kernel), index), give_parameter(kernel, index, offset_bytes, size_bytes))
SIMCUDA_DRIVER(cuFuncGetParamInfo,
               (CUfunction function, size_t index, size_t* offset_bytes, size_t* size_bytes),
               (number(function), index), give_parameter(function, index, offset_bytes, size_bytes))
SIMCUDA_DRIVER(cuFuncGetAttribute,
               (int* value, CUfunction_attribute attribute, CUfunction function),
               (as_number(attribute), number(function)),
               give_attribute_of(thread, value, attribute, function))
SIMCUDA_DRIVER(cuKernelGetAttribute,
               (int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice /*device*/),
               (as_number(attribute), number(kernel)),
               give_attribute_of(thread, value, attribute, kernel))
SIMCUDA_DRIVER(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value),
               (number(function), as_number(attribute), as_number(value)),
               set_attribute_of(attribute, value, function))
SIMCUDA_DRIVER(cuKernelSetAttribute,
               (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice /*device*/),
               (as_number(attribute), as_number(value), number(kernel)),
               set_attribute_of(attribute, value, kernel))
SIMCUDA_DRIVER(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache /*wanted*/),
               (number(function)), accept_for(function))
SIMCUDA_DRIVER(cuKernelSetCacheConfig,
               (CUkernel kernel, CUfunc_cache /*wanted*/, CUdevice /*device*/), (number(kernel)),
               accept_for(kernel))
SIMCUDA_DRIVER(cuFuncLoad, (CUfunction function), (number(function)), accept_for(function))
SIMCUDA_DRIVER(cuFuncIsLoaded, (CUfunctionLoadingState * state, CUfunction function),
               (number(function)), give_loading_state(state, function))

// ---- launches

SIMCUDA_DRIVER(cuLaunchKernel,
               (CUfunction function, unsigned int /*grid_x*/, unsigned int /*grid_y*/,
                unsigned int /*grid_z*/, unsigned int block_x, unsigned int block_y,
                unsigned int block_z, unsigned int /*shared_memory_bytes*/, CUstream stream,
                void** arguments, void** /*extra*/),
               (number(function), number(stream)),
               launch_handle(thread, function, arguments, stream, {block_x, block_y, block_z}))
SIMCUDA_DRIVER(cuLaunchKernelEx,
               (const CUlaunchConfig* configuration, CUfunction function, void** arguments,
                void** /*extra*/),
               (number(function)),
               configuration == nullptr
                   ? cudaErrorInvalidValue
                   : launch_handle(thread, function, arguments, configuration->hStream,
                                   {configuration->blockDimX, configuration->blockDimY,
                                    configuration->blockDimZ}))
SIMCUDA_DRIVER(cuLaunchCooperativeKernel,
               (CUfunction function, unsigned int /*grid_x*/, unsigned int /*grid_y*/,
                unsigned int /*grid_z*/, unsigned int block_x, unsigned int block_y,
                unsigned int block_z, unsigned int /*shared_memory_bytes*/, CUstream stream,
                void** arguments),
               (number(function), number(stream)),
               launch_handle(thread, function, arguments, stream, {block_x, block_y, block_z}))

}  // namespace simcuda

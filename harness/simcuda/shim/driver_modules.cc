// The driver's modules, libraries and kernels. In: images, which are kept as a name for their
// kernels alone: no code of them runs. Out: functions by name, and launches, which need a host
// model or a duration (kernel_models.h).
#include <algorithm>
#include <cctype>
#include <cstring>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/sanitizers.h"
#include "harness/simcuda/shim/simulated_device.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

struct Image;
struct DriverKernel {
  Image* image = nullptr;
  std::string name;
};
// One object stands for a module and a library.
struct Image {
  std::string ptx;  // empty: a binary, whose kernels' names are not looked for
  std::map<std::string, DriverKernel*, std::less<>> kernels;
  bool live = true;
};
// Objects stay, so that stale handles are seen.
struct Images {
  std::mutex mutex;
  std::deque<Image> images;
  std::deque<DriverKernel> kernels;
};
Images& images() { return made_once<Images>(); }

template <class T>
T* find_object(std::deque<T>& all, const void* handle) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const T& object) { return &object == handle; });
  return found == all.end() ? nullptr : &*found;
}

Image* live_image(const void* handle) {
  Image* const image = find_object(images().images, handle);
  return image != nullptr && image->live ? image : nullptr;
}

DriverKernel* live_kernel(const void* handle) {
  DriverKernel* const kernel = find_object(images().kernels, handle);
  return kernel != nullptr && kernel->image->live ? kernel : nullptr;
}

// PTX is text that ends with a zero.
std::string text_of(const void* data) {
  const char* const text = static_cast<const char*>(data);
  const bool is_text =
      std::isspace(static_cast<unsigned char>(*text)) != 0 || *text == '/' || *text == '.';
  return is_text ? std::string(text) : std::string();
}

bool names_kernel(const std::string& ptx, std::string_view name) {
  const auto is_part = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '$';
  };
  for (std::size_t at = ptx.find(name); at != std::string::npos; at = ptx.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if (at != 0 && !is_part(ptx[at - 1]) && end < ptx.size() && !is_part(ptx[end])) return true;
  }
  return false;
}

template <class Handle>
CUresult load(Handle* result, const void* data) {
  if (result == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  Image& image = all.images.emplace_back();
  image.ptx = text_of(data);
  *result = reinterpret_cast<Handle>(&image);
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult load_file(Handle* result, const char* path) {
  if (result == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  return load(result, bytes.c_str());
}

CUresult unload(const void* handle) {
  const std::lock_guard lock(images().mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  image->live = false;
  return CUDA_SUCCESS;
}

template <class Handle>
CUresult find_kernel(Handle* result, const void* handle, const char* name) {
  if (result == nullptr || name == nullptr || *name == '\0') return CUDA_ERROR_INVALID_VALUE;
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  Image* const image = live_image(handle);
  if (image == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!image->ptx.empty() && !names_kernel(image->ptx, name)) return CUDA_ERROR_NOT_FOUND;
  DriverKernel*& kernel = image->kernels[name];
  if (kernel == nullptr) kernel = &all.kernels.emplace_back(DriverKernel{image, name});
  *result = reinterpret_cast<Handle>(kernel);
  return CUDA_SUCCESS;
}

// Empty where the handle is none.
std::string name_of(const void* handle) {
  const std::lock_guard lock(images().mutex);
  const DriverKernel* const kernel = live_kernel(handle);
  return kernel == nullptr ? std::string() : kernel->name;
}

cudaError_t launch_handle(ThreadState& thread, const void* kernel, void** arguments,
                          cudaStream_t stream) {
  const std::string name = name_of(kernel);
  return name.empty() ? cudaErrorInvalidResourceHandle
                      : launch_kernel(thread, name, arguments, stream);
}

// A kernel and its function are one object.
template <class Handle>
CUresult same_kernel(Handle* result, const void* kernel) {
  if (result == nullptr || name_of(kernel).empty()) {
    return result == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  *result = reinterpret_cast<Handle>(const_cast<void*>(kernel));
  return CUDA_SUCCESS;
}

CUresult give_name(const char** name, const void* handle) {
  const std::lock_guard lock(images().mutex);
  const DriverKernel* const kernel = live_kernel(handle);
  if (name == nullptr || kernel == nullptr) {
    return name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
  }
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult give_attribute_of(const ThreadState& thread, int* value, CUfunction_attribute attribute,
                           const void* kernel) {
  const SimulatedDevice* const device = current_device(thread);
  if (value == nullptr || device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (name_of(kernel).empty()) return CUDA_ERROR_INVALID_HANDLE;
  const auto limit = [&](cudaDeviceAttr id) { return device->profile.attributes.at(id); };
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = limit(cudaDevAttrMaxThreadsPerBlock);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value =
          10 * limit(cudaDevAttrComputeCapabilityMajor) + limit(cudaDevAttrComputeCapabilityMinor);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = limit(cudaDevAttrMaxSharedMemoryPerBlock);
      return CUDA_SUCCESS;
    default:
      *value = 0;
      return attribute < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult accept_for(const void* kernel) {
  return name_of(kernel).empty() ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

}  // namespace

// The driver's function of that name and parameters, with an answer that is a CUresult.
#define SIMCUDA_MODULE_CALL(name, parameters, logged, answer)                                \
  SIMCUDA_EXPORT CUresult name parameters {                                                  \
    return driver_call<#name>(SIMCUDA_LIST logged,                                           \
                              [&]([[maybe_unused]] ThreadState& thread) { return answer; }); \
  }

SIMCUDA_MODULE_CALL(cuModuleLoad, (CUmodule * module, const char* path), (),
                    load_file(module, path))
SIMCUDA_MODULE_CALL(cuModuleLoadData, (CUmodule * module, const void* image), (),
                    load(module, image))
SIMCUDA_MODULE_CALL(cuModuleLoadDataEx,
                    (CUmodule * module, const void* image, unsigned int /*option_count*/,
                     CUjit_option* /*options*/, void** /*values*/),
                    (), load(module, image))
SIMCUDA_MODULE_CALL(cuModuleLoadFatBinary, (CUmodule * module, const void* image), (),
                    load(module, image))
SIMCUDA_MODULE_CALL(cuModuleUnload, (CUmodule module), (number(module)), unload(module))
SIMCUDA_MODULE_CALL(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name),
                    (number(module)), find_kernel(function, module, name))
SIMCUDA_EXPORT CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  return driver_call<"cuModuleGetLoadingMode">({}, [&](ThreadState&) {
    if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

SIMCUDA_MODULE_CALL(cuLibraryLoadData,
                    (CUlibrary * library, const void* image, CUjit_option* /*jit_options*/,
                     void** /*jit_values*/, unsigned int /*jit_count*/,
                     CUlibraryOption* /*options*/, void** /*values*/, unsigned int /*count*/),
                    (), load(library, image))
SIMCUDA_MODULE_CALL(cuLibraryLoadFromFile,
                    (CUlibrary * library, const char* path, CUjit_option* /*jit_options*/,
                     void** /*jit_values*/, unsigned int /*jit_count*/,
                     CUlibraryOption* /*options*/, void** /*values*/, unsigned int /*count*/),
                    (), load_file(library, path))
SIMCUDA_MODULE_CALL(cuLibraryUnload, (CUlibrary library), (number(library)), unload(library))
SIMCUDA_MODULE_CALL(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char* name),
                    (number(library)), find_kernel(kernel, library, name))
SIMCUDA_EXPORT CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return driver_call<"cuLibraryGetModule">({number(library)}, [&](ThreadState&) {
    const std::lock_guard lock(images().mutex);
    if (module == nullptr || live_image(library) == nullptr) {
      return module == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
  });
}

SIMCUDA_MODULE_CALL(cuKernelGetFunction, (CUfunction * function, CUkernel kernel), (number(kernel)),
                    same_kernel(function, kernel))
SIMCUDA_MODULE_CALL(cuKernelGetName, (const char** name, CUkernel kernel), (number(kernel)),
                    give_name(name, kernel))
SIMCUDA_MODULE_CALL(cuFuncGetName, (const char** name, CUfunction function), (number(function)),
                    give_name(name, function))
SIMCUDA_MODULE_CALL(cuFuncGetAttribute,
                    (int* value, CUfunction_attribute attribute, CUfunction function),
                    (as_number(attribute), number(function)),
                    give_attribute_of(thread, value, attribute, function))
SIMCUDA_MODULE_CALL(cuKernelGetAttribute,
                    (int* value, CUfunction_attribute attribute, CUkernel kernel,
                     CUdevice /*device*/),
                    (as_number(attribute), number(kernel)),
                    give_attribute_of(thread, value, attribute, kernel))
SIMCUDA_MODULE_CALL(cuFuncSetAttribute,
                    (CUfunction function, CUfunction_attribute attribute, int value),
                    (number(function), as_number(attribute), as_number(value)),
                    accept_for(function))
SIMCUDA_MODULE_CALL(cuKernelSetAttribute,
                    (CUfunction_attribute attribute, int value, CUkernel kernel,
                     CUdevice /*device*/),
                    (as_number(attribute), as_number(value), number(kernel)), accept_for(kernel))
SIMCUDA_MODULE_CALL(cuFuncSetCacheConfig, (CUfunction function, CUfunc_cache /*wanted*/),
                    (number(function)), accept_for(function))

// ---- launches

SIMCUDA_DRIVER(cuLaunchKernel,
               (CUfunction function, unsigned int /*grid_x*/, unsigned int /*grid_y*/,
                unsigned int /*grid_z*/, unsigned int /*block_x*/, unsigned int /*block_y*/,
                unsigned int /*block_z*/, unsigned int /*shared_memory_bytes*/, CUstream stream,
                void** arguments, void** /*extra*/),
               (number(function), number(stream)),
               launch_handle(thread, function, arguments, stream))
SIMCUDA_DRIVER(cuLaunchKernelEx,
               (const CUlaunchConfig* configuration, CUfunction function, void** arguments,
                void** /*extra*/),
               (number(function)),
               configuration == nullptr
                   ? cudaErrorInvalidValue
                   : launch_handle(thread, function, arguments, configuration->hStream))
SIMCUDA_DRIVER(cuLaunchCooperativeKernel,
               (CUfunction function, unsigned int /*grid_x*/, unsigned int /*grid_y*/,
                unsigned int /*grid_z*/, unsigned int /*block_x*/, unsigned int /*block_y*/,
                unsigned int /*block_z*/, unsigned int /*shared_memory_bytes*/, CUstream stream,
                void** arguments),
               (number(function), number(stream)),
               launch_handle(thread, function, arguments, stream))

}  // namespace simcuda

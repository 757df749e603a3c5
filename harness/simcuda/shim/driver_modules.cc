// The driver's modules and libraries. In: images. Out: kernels and variables by name (images.h).
#include <algorithm>
#include <vector>

#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

CUresult count_kernels(unsigned int* count, const void* image) {
  std::vector<void*> kernels;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = list_kernels(kernels, image);
  *count = static_cast<unsigned int>(kernels.size());
  return result;
}

template <class Handle>
CUresult give_kernels(Handle* result, unsigned int count_max, const void* image) {
  std::vector<void*> kernels;
  if (result == nullptr || count_max == 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult error = list_kernels(kernels, image);
  for (std::size_t i = 0; i < std::min<std::size_t>(count_max, kernels.size()); ++i) {
    result[i] = static_cast<Handle>(kernels[i]);
  }
  return error;
}

CUresult module_of_library(CUmodule* module, CUlibrary library) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!is_live_image(library)) return CUDA_ERROR_INVALID_HANDLE;
  *module = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}

}  // namespace

SIMCUDA_DRIVER(cuModuleLoad, (CUmodule * module, const char* path), (),
               load_image_file(as_runtime<void**>(module), path))
SIMCUDA_DRIVER(cuModuleLoadData, (CUmodule * module, const void* image), (),
               load_image(as_runtime<void**>(module), image))
SIMCUDA_DRIVER(cuModuleLoadDataEx,
               (CUmodule * module, const void* image, unsigned int /*option_count*/,
                CUjit_option* /*options*/, void** /*values*/),
               (), load_image(as_runtime<void**>(module), image))
SIMCUDA_DRIVER(cuModuleLoadFatBinary, (CUmodule * module, const void* image), (),
               load_image(as_runtime<void**>(module), image))
SIMCUDA_DRIVER(cuModuleUnload, (CUmodule module), (number(module)), unload_image(thread, module))
SIMCUDA_DRIVER(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name),
               (number(module)), find_kernel(as_runtime<void**>(function), module, name))
SIMCUDA_DRIVER(cuModuleGetFunctionCount, (unsigned int* count, CUmodule module), (number(module)),
               count_kernels(count, module))
SIMCUDA_DRIVER(cuModuleEnumerateFunctions,
               (CUfunction * functions, unsigned int count, CUmodule module),
               (number(module), count), give_kernels(functions, count, module))
SIMCUDA_DRIVER(cuModuleGetGlobal,
               (CUdeviceptr * address, size_t* size_bytes, CUmodule module, const char* name),
               (number(module)), find_variable(thread, address, size_bytes, module, name))
SIMCUDA_DRIVER(cuModuleGetLoadingMode, (CUmoduleLoadingMode * mode), (),
               give_value(mode, CU_MODULE_LAZY_LOADING))

SIMCUDA_DRIVER(cuLibraryLoadData,
               (CUlibrary * library, const void* image, CUjit_option* /*jit_options*/,
                void** /*jit_values*/, unsigned int /*jit_count*/, CUlibraryOption* /*options*/,
                void** /*values*/, unsigned int /*count*/),
               (), load_image(as_runtime<void**>(library), image))
SIMCUDA_DRIVER(cuLibraryLoadFromFile,
               (CUlibrary * library, const char* path, CUjit_option* /*jit_options*/,
                void** /*jit_values*/, unsigned int /*jit_count*/, CUlibraryOption* /*options*/,
                void** /*values*/, unsigned int /*count*/),
               (), load_image_file(as_runtime<void**>(library), path))
SIMCUDA_DRIVER(cuLibraryUnload, (CUlibrary library), (number(library)),
               unload_image(thread, library))
SIMCUDA_DRIVER(cuLibraryGetKernel, (CUkernel * kernel, CUlibrary library, const char* name),
               (number(library)), find_kernel(as_runtime<void**>(kernel), library, name))
SIMCUDA_DRIVER(cuLibraryGetKernelCount, (unsigned int* count, CUlibrary library), (number(library)),
               count_kernels(count, library))
SIMCUDA_DRIVER(cuLibraryEnumerateKernels,
               (CUkernel * kernels, unsigned int count, CUlibrary library),
               (number(library), count), give_kernels(kernels, count, library))
SIMCUDA_DRIVER(cuLibraryGetGlobal,
               (CUdeviceptr * address, size_t* size_bytes, CUlibrary library, const char* name),
               (number(library)), find_variable(thread, address, size_bytes, library, name))
SIMCUDA_DRIVER(cuLibraryGetModule, (CUmodule * module, CUlibrary library), (number(library)),
               module_of_library(module, library))

}  // namespace simcuda

// The runtime's libraries of device code: cudaLibrary* and kernels by handle. In: images. Out:
// kernels and variables by name (images.h), as the driver's cuLibrary* has them.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "harness/simcuda/shim/call.h"
#include "harness/simcuda/shim/images.h"
#include "harness/simcuda/shim/kernel_models.h"
#include "harness/simcuda/shim/twins.h"

namespace simcuda {
namespace {

cudaError_t as_error(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_FOUND:
      return cudaErrorSymbolNotFound;
    case CUDA_ERROR_INVALID_IMAGE:
      return cudaErrorInvalidKernelImage;
    default:
      return static_cast<cudaError_t>(result);  // the same numbers
  }
}

cudaError_t find_variable_of(ThreadState& thread, void** pointer, size_t* size_bytes,
                             cudaLibrary_t library, const char* name) {
  CUdeviceptr address = 0;
  const CUresult result =
      find_variable(thread, pointer == nullptr ? nullptr : &address, size_bytes, library, name);
  if (result == CUDA_SUCCESS && pointer != nullptr) *pointer = reinterpret_cast<void*>(address);
  return as_error(result);
}

cudaError_t find_registered(void** result, const void* function) {
  const std::string name = registered_kernel_name(function);
  if (result == nullptr) return cudaErrorInvalidValue;
  if (name.empty()) return cudaErrorInvalidDeviceFunction;
  return as_error(find_registered_kernel(result, name.c_str()));
}

}  // namespace

SIMCUDA_RUNTIME(cudaGetFuncBySymbol, (cudaFunction_t * function, const void* symbol),
                (number(symbol)), find_registered(reinterpret_cast<void**>(function), symbol))

SIMCUDA_RUNTIME(cudaGetKernel, (cudaKernel_t * kernel, const void* symbol), (number(symbol)),
                find_registered(reinterpret_cast<void**>(kernel), symbol))

SIMCUDA_RUNTIME(cudaLibraryLoadData,
                (cudaLibrary_t * library, const void* image, cudaJitOption* /*jit_options*/,
                 void** /*jit_values*/, unsigned int /*jit_count*/, cudaLibraryOption* /*options*/,
                 void** /*values*/, unsigned int /*count*/),
                (), as_error(load_image(reinterpret_cast<void**>(library), image)))

SIMCUDA_RUNTIME(cudaLibraryLoadFromFile,
                (cudaLibrary_t * library, const char* path, cudaJitOption* /*jit_options*/,
                 void** /*jit_values*/, unsigned int /*jit_count*/, cudaLibraryOption* /*options*/,
                 void** /*values*/, unsigned int /*count*/),
                (), as_error(load_image_file(reinterpret_cast<void**>(library), path)))

SIMCUDA_RUNTIME(cudaLibraryUnload, (cudaLibrary_t library), (number(library)),
                as_error(unload_image(thread, library)))

SIMCUDA_RUNTIME(cudaLibraryGetKernel,
                (cudaKernel_t * kernel, cudaLibrary_t library, const char* name), (number(library)),
                as_error(find_kernel(reinterpret_cast<void**>(kernel), library, name)))

SIMCUDA_RUNTIME(cudaLibraryGetGlobal,
                (void** pointer, size_t* size_bytes, cudaLibrary_t library, const char* name),
                (number(library)), find_variable_of(thread, pointer, size_bytes, library, name))

SIMCUDA_RUNTIME(cudaKernelSetAttributeForDevice,
                (cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device),
                (number(kernel), as_number(device)), as_error(set_kernel(kernel, attribute, value)))

}  // namespace simcuda

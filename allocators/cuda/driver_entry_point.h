// Finds functions of the CUDA driver at run time: the suite never links libcuda, so that one binary
// runs with and without a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "allocators/cuda/cuda_check.h"
#include "base/error.h"

namespace allocmark {

// Sets `function` to the driver's `name`, as of CUDA 12.0. Throws EnvironmentError where the driver
// has none.
template <typename Function>
void look_up_driver(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  ALLOCMARK_CUDA_CHECK(
      cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result));
#else
  ALLOCMARK_CUDA_CHECK(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result));
#endif
  if (found == nullptr || result != cudaDriverEntryPointSuccess) {
    throw EnvironmentError({.what = "the driver has no virtual memory functions",
                            .where = "CUDA driver",
                            .wanted = name,
                            .got = "nothing",
                            .next = "use a newer driver"});
  }
  function = reinterpret_cast<Function>(found);
}

}  // namespace allocmark

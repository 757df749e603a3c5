// Device memory as cudaMalloc and cudaFree take and give it, for whatever else is made of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "harness/simcuda/shim/call.h"

namespace simcuda {

// As the calls of these names; the call's cost is on the thread's clock afterwards.
[[nodiscard]] cudaError_t allocate_memory(ThreadState& thread, void** pointer,
                                          std::size_t size_bytes);
[[nodiscard]] cudaError_t free_memory(ThreadState& thread, void* pointer);

}  // namespace simcuda

// Attributes of pools as the runtime and the driver pass them. In: a pool of the core, whose device
// is locked; the attribute's number; where its value is, an int or 64 bits. Out: the error.
#pragma once

#include <cuda_runtime_api.h>

#include "harness/simcuda/core/memory_pool.h"

namespace simcuda {

[[nodiscard]] cudaError_t set_pool_value(MemoryPool& pool, cudaMemPoolAttr attribute,
                                         const void* value);
[[nodiscard]] cudaError_t get_pool_value(const MemoryPool& pool, cudaMemPoolAttr attribute,
                                         void* value);

}  // namespace simcuda

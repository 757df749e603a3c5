// Pools of host memory, pinned or managed: cudaMemPoolCreate with a location of the host, or with
// managed memory. In: the handles of such pools. Out: host memory that both sides may use.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "harness/simcuda/core/units.h"

namespace simcuda {

// Whether simcuda takes the memory of such a pool from the host.
[[nodiscard]] bool is_host_pool(int allocation_type, int location_type);

[[nodiscard]] cudaError_t create_host_pool(cudaMemPool_t* pool, const cudaMemPoolProps& properties,
                                           int device);
// The one that the location has without being asked; it is never destroyed.
[[nodiscard]] cudaError_t default_host_pool(cudaMemPool_t* pool, const cudaMemLocation& location,
                                            int allocation_type, int device);

[[nodiscard]] bool is_live_host_pool(cudaMemPool_t pool);
// Of a handle; nothing where it is no pool of host memory.
[[nodiscard]] std::optional<cudaError_t> destroy_host_pool(cudaMemPool_t pool);
[[nodiscard]] std::optional<cudaError_t> set_host_pool_value(cudaMemPool_t pool, int attribute,
                                                             const void* value);
[[nodiscard]] std::optional<cudaError_t> get_host_pool_value(cudaMemPool_t pool, int attribute,
                                                             void* value);
[[nodiscard]] std::optional<cudaError_t> allocate_from_host_pool(cudaMemPool_t pool, void** pointer,
                                                                 std::size_t size_bytes);

// The block that holds the pointer; empty (lo 0) where there is none.
[[nodiscard]] Range host_pool_block(const void* pointer);
// Gives its memory back at once. False where no block of such a pool begins there.
[[nodiscard]] bool free_to_host_pool(void* pointer);

}  // namespace simcuda

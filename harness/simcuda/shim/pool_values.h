// Attributes of pools as the runtime and the driver pass them. In: a pool of the core, whose device
// is locked; the attribute's number; where its value is, an int or 64 bits. Out: the error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "harness/simcuda/core/memory_pool.h"

namespace simcuda {

[[nodiscard]] cudaError_t set_pool_value(MemoryPool& pool, cudaMemPoolAttr attribute,
                                         const void* value);
[[nodiscard]] cudaError_t get_pool_value(const MemoryPool& pool, cudaMemPoolAttr attribute,
                                         void* value);

// What a pool was made as. Headers from CUDA 13.2 on name the attributes that ask for it, that of
// the locality domain from 13.4 on.
struct PoolIdentity {
  int allocation_type = cudaMemAllocationTypePinned;
  int location_type = cudaMemLocationTypeDevice;
  int location_id = 0;
  std::uint64_t max_bytes = 0;               // 0: none was asked for
  int handle_types = cudaMemHandleTypeNone;  // for other processes
};
[[nodiscard]] constexpr bool has_file_handles(const PoolIdentity& pool) {
  return (pool.handle_types & cudaMemHandleTypePosixFileDescriptor) != 0;
}
// Whether the attribute is one of these; then the value is given.
[[nodiscard]] bool get_pool_identity(const PoolIdentity& pool, int attribute, void* value);

// A place that pools of that kind may have, as CUDA 13.0 names it. CUDA 13.4 also names domains of
// a device, for pinned memory: the only one is the whole device. Nothing where no pool can be.
[[nodiscard]] std::optional<cudaMemLocation> pool_place(const cudaMemLocation& location,
                                                        int allocation_type);

}  // namespace simcuda

// Pools of host memory, pinned or managed: cudaMemPoolCreate with a location of the host, or with
// managed memory. The core's pools place their blocks, in addresses that both sides may use. In:
// places and blocks. Out: the pools of places, and which host memory is a block.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "harness/simcuda/core/units.h"
#include "harness/simcuda/shim/simulated_device.h"

namespace simcuda {

// Whether simcuda takes the memory of such a pool from the host.
[[nodiscard]] bool is_host_pool(int allocation_type, int location_type);

// A pool of the calling thread's device, whose streams alone can use it.
[[nodiscard]] cudaError_t create_host_pool(ThreadState& thread, cudaMemPool_t* pool,
                                           const PoolIdentity& identity);

// The pool that is the place's at first, or the one that was set last.
enum class PoolRole : std::uint8_t { Default, Current };
// `place` without a size.
[[nodiscard]] cudaError_t host_pool_of_place(ThreadState& thread, cudaMemPool_t* pool,
                                             const PoolIdentity& place, PoolRole role);
[[nodiscard]] cudaError_t set_host_pool_of_place(SimPool* pool, const PoolIdentity& place);
// It is destroyed: its place goes back to the default pool.
void leave_place(const SimPool* pool);

// A block that the pool has given out begins at `pointer`; no lock is held, nor in what follows.
void note_host_block(const SimPool& pool, const void* pointer, std::size_t size_bytes);
// The block that holds the pointer; empty (lo 0) where there is none.
[[nodiscard]] Range host_pool_block(const void* pointer);
// The device whose core has the block that begins there; null where none does.
[[nodiscard]] SimulatedDevice* device_of_host_block(const void* pointer);
// The block that begins there, if any, is free; its device's core has to hear of it next.
void forget_host_block(void* pointer);

}  // namespace simcuda

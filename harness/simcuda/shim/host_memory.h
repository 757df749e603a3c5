// Pinned host memory that programs got from cudaMallocHost or gave to cudaHostRegister.
// Managed memory counts as such where bytes move.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/simcuda/core/units.h"

namespace simcuda {

// The pinned or managed range that holds the pointer; empty (lo 0) where there is none.
[[nodiscard]] Range host_allocation(const void* pointer);
// The range of pinned memory that holds the pointer, managed memory left out; empty (lo 0) where
// there is none.
[[nodiscard]] Range pinned_range(const void* pointer);
// The device's context has ended: what was pinned in it is gone, and what the program registered is
// pinned no longer. Returns how much that was; the caller has the device's lock.
[[nodiscard]] std::uint64_t forget_host_memory(int device);

// Address space of the host without pages; null where there is none. The caller unmaps it.
[[nodiscard]] void* map_host_pages(std::size_t size_bytes);
// Memory of the host.
[[nodiscard]] std::uint64_t host_total_bytes();
// Whether the host has that NUMA node.
[[nodiscard]] bool is_numa_node(int node);

}  // namespace simcuda

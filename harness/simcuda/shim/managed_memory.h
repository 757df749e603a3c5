// Managed memory: ordinary pages of the host that both sides may use, taken when they are touched.
// What a program advises about them and where it prefetched them is remembered, and moves nothing.
#pragma once

#include <cstddef>

#include "harness/simcuda/core/units.h"

namespace simcuda {

struct ManagedBlock {
  Range range;     // empty (lo 0): there is none
  int device = 0;  // that was current when it was made
};

// A block of a pool is managed memory until free_managed; the pool keeps its addresses. A reset
// leaves it.
void adopt_managed(const void* pointer, std::size_t size_bytes, int device);

// The one that holds the pointer.
[[nodiscard]] ManagedBlock managed_block(const void* pointer);
// False where no managed memory begins there.
[[nodiscard]] bool free_managed(void* pointer);
// The device's context has ended, and its managed memory is gone.
void forget_managed_memory(int device);

}  // namespace simcuda

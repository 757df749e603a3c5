// Pinned host memory that programs got from cudaMallocHost or gave to cudaHostRegister.
#pragma once

#include "harness/simcuda/core/units.h"

namespace simcuda {

// The pinned range that holds the pointer; empty (lo 0) where there is none.
[[nodiscard]] Range host_allocation(const void* pointer);

}  // namespace simcuda

// The backend cupy: CuPy's memory pool on cudaMalloc. Requests flow in, device memory flows out;
// heap.h has the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry cupy_entry();

}  // namespace allocmark

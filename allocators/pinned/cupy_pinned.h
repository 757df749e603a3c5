// The backend cupy_pinned: CuPy's pool of pinned host memory on cudaHostAlloc. Requests flow in,
// pinned memory flows out; cupy_blocks.h has the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry cupy_pinned_entry();

}  // namespace allocmark

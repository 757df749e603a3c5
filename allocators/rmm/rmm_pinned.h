// The backend rmm_pinned: RMM's pool_memory_resource on pinned host memory, rebuilt. Requests flow
// in, pinned memory flows out; pool.h has the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry rmm_pinned_entry();

}  // namespace allocmark

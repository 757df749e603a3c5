// The backends rmm@25.12, rmm@26.04, rmm@26.06 and rmm@26.10: RMM's pool_memory_resource and
// cuda_async_memory_resource as these releases decide, rebuilt. Requests flow in, device memory
// flows out; pool.h has the rules. No RMM is needed.
#pragma once

#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

// The oldest first.
[[nodiscard]] std::vector<BackendEntry> rmm_releases();
// The same pool on pinned host memory; in rmm_pinned.cc.
[[nodiscard]] BackendEntry rmm_pinned_entry();

}  // namespace allocmark

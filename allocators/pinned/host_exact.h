// The backend host_exact: each request is pinned by itself, by cudaHostAlloc or by mmap and
// cudaHostRegister, and unpinned at its free: no rounding beyond pages, no cache. Requests flow in,
// pinned memory flows out.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry host_exact_entry();

}  // namespace allocmark

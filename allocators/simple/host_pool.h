// The backend host_pool: the driver's stream-ordered pool of pinned host memory, of CUDA 13.
// Requests flow in, pinned memory flows out; async.h does the work.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry host_pool_entry();

}  // namespace allocmark

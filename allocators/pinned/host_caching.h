// The backends host_caching and host_caching@RELEASE: PyTorch's cache of pinned host memory on the
// CUDA runtime. Requests flow in, pinned memory flows out; ../host_caching decides.
#pragma once

#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

// That of the newest release.
[[nodiscard]] BackendEntry host_caching_entry();
// One for each release, the oldest first.
[[nodiscard]] std::vector<BackendEntry> host_caching_releases();

}  // namespace allocmark

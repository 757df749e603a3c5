// The backends of pinned host memory that are no driver's pool. Requests flow in, pinned memory
// flows out; each is at the end of the file of its name.
#pragma once

#include <vector>

#include "allocators/backend/backend.h"

namespace allocmark {

// That of the newest release.
[[nodiscard]] BackendEntry host_caching_entry();
// One for each release, the oldest first.
[[nodiscard]] std::vector<BackendEntry> host_caching_releases();
[[nodiscard]] BackendEntry host_exact_entry();
[[nodiscard]] BackendEntry cupy_pinned_entry();

}  // namespace allocmark

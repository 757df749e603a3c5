// For tests of allocators that this machine may not have.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "allocators/backend/backend.h"

namespace allocmark {

// Ends the test program as skipped, with the reason, where the allocator cannot run here. Catch2 2
// has no way to skip one case, so cases that want this are hidden behind a tag and a CTest entry of
// their own.
inline void skip_without(const BackendEntry& entry) {
  const std::string reason = entry.unavailable_reason();
  if (reason.empty()) return;
  std::printf("skipped: %s\n", reason.c_str());
  std::fflush(stdout);
  std::_Exit(77);
}

}  // namespace allocmark

// All backends by name.
#pragma once

#include <span>
#include <string_view>

#include "allocators/backend/backend.h"

namespace allocmark {

// All backends, in the order tables show them.
[[nodiscard]] std::span<const BackendEntry> backend_registry();

// By name; throws UsageError with the nearest names.
[[nodiscard]] const BackendEntry& find_backend(std::string_view name);

}  // namespace allocmark

// What a backend answers whose heap knows addresses alone.
#pragma once

#include <cstdint>
#include <optional>

#include "allocators/backend/backend.h"

namespace allocmark {

// The block at the address; out of memory where there is none.
[[nodiscard]] inline AllocateResult result_at(std::optional<std::uint64_t> address) {
  if (!address) return {.pointer = nullptr, .status = AllocateStatus::OutOfMemory};
  return {.pointer = reinterpret_cast<void*>(*address), .status = AllocateStatus::Ok};
}

}  // namespace allocmark

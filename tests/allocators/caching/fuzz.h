// Programs (harness/tools/parity/program.h) run on the caching allocator and the reference model
// side by side, and shrunk to the shortest that still fails.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "harness/tools/parity/program.h"

namespace allocmark::caching {

// What went wrong at which step; nothing where allocator and model agree throughout and every
// invariant holds.
struct FuzzFailure {
  std::size_t step = 0;
  std::string text;
};
[[nodiscard]] std::optional<FuzzFailure> run_program(const Program& program);

// Fewer steps that still fail.
[[nodiscard]] Program shrink(Program program);

}  // namespace allocmark::caching

// The registry of generators, in the order in which they are listed.
#pragma once

#include <span>

#include "workloads/trace/coroutine_program.h"

namespace allocmark {

[[nodiscard]] std::span<const GeneratorEntry> generators();

}  // namespace allocmark

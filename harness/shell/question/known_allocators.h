// The backend registry as the plan needs it, without CUDA types.
#pragma once

#include <vector>

#include "harness/core/run/plan.h"

namespace allocmark {

[[nodiscard]] std::vector<PlanAllocator> known_allocators();

}  // namespace allocmark

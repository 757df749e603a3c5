// The backend planned: PyTorch's caching allocator for the first steps of a program, then a plan
// for the steps that follow. Requests and steps flow in, device memory flows out; plan.h has the
// rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry planned_entry();

}  // namespace allocmark

// The backend xla_vmm: the allocator of virtual memory that JAX takes with
// XLA_PYTHON_CLIENT_ALLOCATOR=vmm. Requests flow in, device memory flows out; pages.h has the
// rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry xla_vmm_entry();

}  // namespace allocmark

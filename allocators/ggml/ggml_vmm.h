// The backend ggml_vmm: the pool of virtual memory of llama.cpp's CUDA backend, one for each
// stream. Requests flow in, device memory flows out; stack_pool.h has the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry ggml_vmm_entry();

}  // namespace allocmark

// The backends ggml_legacy and ggml_vmm: the two pools of llama.cpp's CUDA backend, one for each
// stream. Requests flow in, device memory flows out; pools.h and stack_pool.h have the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry ggml_legacy_entry();
[[nodiscard]] BackendEntry ggml_vmm_entry();  // in ggml_vmm.cc

}  // namespace allocmark

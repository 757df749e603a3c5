// The backend ggml_legacy: the legacy pool of llama.cpp's CUDA backend, one for each stream.
// Requests flow in, device memory flows out; pools.h has the rules.
#pragma once

#include "allocators/backend/backend.h"

namespace allocmark {

[[nodiscard]] BackendEntry ggml_legacy_entry();

}  // namespace allocmark

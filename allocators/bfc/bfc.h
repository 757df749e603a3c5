// The backends bfc@tf2.21 and bfc@xla-2026-09: the allocator of TensorFlow and the one of JAX, on
// cudaMalloc. Requests flow in, device memory flows out; heap.h has the rules.
#pragma once

#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/bfc/heap.h"

namespace allocmark {

namespace bfc {

// The rules of "tf2.21" or "xla-2026-09", as options whose limit is still open.
[[nodiscard]] HeapOptions rules_of(std::string_view name);

}  // namespace bfc

[[nodiscard]] BackendEntry bfc_tf_entry();
[[nodiscard]] BackendEntry bfc_xla_entry();

}  // namespace allocmark

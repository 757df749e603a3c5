// The backends bfc@tf2.21, bfc@xla-2026-09 and bfc@ort1.32: the allocators of TensorFlow, of JAX
// and of ONNX Runtime, on cudaMalloc. Requests flow in, device memory flows out; heap.h has the
// rules.
#pragma once

#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/bfc/heap.h"

namespace allocmark {

namespace bfc {

// The rules of "tf2.21", "xla-2026-09" or "ort1.32", as options whose limit is still open.
[[nodiscard]] HeapOptions rules_of(std::string_view name);

}  // namespace bfc

[[nodiscard]] BackendEntry bfc_tf_entry();
[[nodiscard]] BackendEntry bfc_xla_entry();
[[nodiscard]] BackendEntry bfc_ort_entry();

}  // namespace allocmark

// Notes each block with Blocks, which have add(pointer, size_bytes) and remove(pointer): when it is
// given out, and before the allocator gets it back. Calls flow through.
#pragma once

#include <cstdint>

#include "allocators/backend/forwarding_backend.h"

namespace allocmark {

// Not for null pointers: a request of size 0 has no block.
template <class Blocks>
class NotingBackend final : public ForwardingBackend {
 public:
  NotingBackend(Backend& inner, Blocks& blocks) : ForwardingBackend(inner), blocks_(blocks) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = ForwardingBackend::allocate(size_bytes, stream);
    if (result.pointer != nullptr) blocks_.add(result.pointer, size_bytes);
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer != nullptr) blocks_.remove(pointer);
    ForwardingBackend::deallocate(pointer, size_bytes, stream);
  }

 private:
  Blocks& blocks_;
};

}  // namespace allocmark

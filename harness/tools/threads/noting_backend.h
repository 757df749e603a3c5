// Notes each block with Blocks, which have add(pointer, size_bytes) and remove(pointer): when it is
// given out, and before the allocator gets it back. Calls flow through.
#pragma once

#include <cstdint>

#include "allocators/backend/backend.h"

namespace allocmark {

// Not for null pointers: a request of size 0 has no block.
template <class Blocks>
class NotingBackend final : public Backend {
 public:
  NotingBackend(Backend& inner, Blocks& blocks) : inner_(inner), blocks_(blocks) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = inner_.allocate(size_bytes, stream);
    if (result.pointer != nullptr) blocks_.add(result.pointer, size_bytes);
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer != nullptr) blocks_.remove(pointer);
    inner_.deallocate(pointer, size_bytes, stream);
  }
  void record_stream(void* pointer, cudaStream_t stream) override {
    inner_.record_stream(pointer, stream);
  }
  void trim() override { inner_.trim(); }
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    return inner_.stats(stream);
  }
  [[nodiscard]] MemoryStats totals() const override { return inner_.totals(); }

 private:
  Backend& inner_;
  Blocks& blocks_;
};

}  // namespace allocmark

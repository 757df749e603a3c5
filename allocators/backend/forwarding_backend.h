// Calls flow through to another backend: the base of those that look at some of them on the way.
#pragma once

#include <cstdint>

#include "allocators/backend/backend.h"

namespace allocmark {

class ForwardingBackend : public Backend {
 public:
  // `inner` outlives it.
  explicit ForwardingBackend(Backend& inner) : inner_(inner) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    return inner_.allocate(size_bytes, stream);
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    inner_.deallocate(pointer, size_bytes, stream);
  }
  void record_stream(void* pointer, cudaStream_t stream) override {
    inner_.record_stream(pointer, stream);
  }
  void trim() override { inner_.trim(); }
  void begin_step() override { inner_.begin_step(); }
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    return inner_.stats(stream);
  }
  [[nodiscard]] MemoryStats totals() const override { return inner_.totals(); }

 private:
  Backend& inner_;
};

}  // namespace allocmark

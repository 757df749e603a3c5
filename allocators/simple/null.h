// The null backend: addresses by arithmetic, no memory behind them. Its latency is the harness's
// own cost, which every report prints beside the allocators' figures. Requests flow in; nothing
// reaches the CUDA runtime.
#pragma once

#include <atomic>
#include <cstdint>

#include "allocators/backend/backend.h"

namespace allocmark {

class NullBackend final : public Backend {
 public:
  NullBackend();

  // Never blocks. Nobody owns anything: the addresses are distinct, aligned and must not be used.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;

 private:
  std::atomic<std::uint64_t> next_address_;
};

[[nodiscard]] BackendEntry null_entry();

}  // namespace allocmark

// The native backend: cudaMalloc and cudaFree and nothing else, the baseline that every cache is
// compared with. Requests flow in, device memory flows out; what is handed out is remembered only
// to be given back at the end.
#pragma once

#include <cstdint>
#include <mutex>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"

namespace allocmark {

class NativeBackend final : public Backend {
 public:
  NativeBackend() = default;
  NativeBackend(const NativeBackend&) = delete;
  NativeBackend& operator=(const NativeBackend&) = delete;
  // Gives back what is still live, waiting for the device's work as cudaFree does.
  ~NativeBackend() override;

  // The caller owns the block and gives it back with deallocate, on any thread; the memory is
  // usable on every stream at once. cudaMalloc may block the host while the driver maps memory, but
  // does not wait for running work.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;

  // Blocks the host until the work running on the device is done: cudaFree does, which is what
  // orders reuse.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;

 private:
  mutable std::mutex mutex_;  // guards what follows, never held during a CUDA call
  LiveSet live_;
  std::uint64_t device_allocate_count_ = 0;
  std::uint64_t device_free_count_ = 0;
};

[[nodiscard]] BackendEntry native_entry();

}  // namespace allocmark

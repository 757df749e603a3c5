// Backend rounded: cudaMalloc of every size rounded up to whole MiB. Requests flow in, device
// memory flows out; nothing is cached.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"

namespace allocmark {

BackendEntry rounded_entry();

namespace {

class RoundedBackend final : public Backend {
 public:
  ~RoundedBackend() override {
    live_.for_each([](const LiveBlock& block) { (void)cudaFree(block.pointer); });
  }

  // The caller owns the block and gives it back with deallocate, on any thread. May block the host
  // while the driver maps memory.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t) override {
    if (size_bytes == 0) return {};
    const std::uint64_t rounded_bytes = (size_bytes + kMiB - 1) / kMiB * kMiB;
    if (rounded_bytes < size_bytes) return kOutOfMemory;
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, rounded_bytes);
    if (is_out_of_memory(error)) return kOutOfMemory;
    ALLOCMARK_CUDA_CHECK(error);
    const std::scoped_lock lock(mutex_);
    live_.reserve_one();
    live_.insert({.pointer = pointer, .size_bytes = rounded_bytes});
    ++device_allocate_count_;
    return {.pointer = pointer};
  }

  // Blocks the host until the device's work is done, as cudaFree does.
  void deallocate(void* pointer, std::uint64_t, cudaStream_t) override {
    if (pointer == nullptr) return;
    {
      const std::scoped_lock lock(mutex_);
      if (live_.erase(pointer)) ++device_free_count_;
    }
    ALLOCMARK_CUDA_CHECK(cudaFree(pointer));
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t) const override {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats;
    stats.allocated_bytes = stats.active_bytes = stats.reserved_bytes = live_.size_bytes_total();
    stats.device_allocate_count = device_allocate_count_;
    stats.device_free_count = device_free_count_;
    return stats;
  }

 private:
  mutable std::mutex mutex_;  // guards what follows, never held during a CUDA call
  LiveSet live_;
  std::uint64_t device_allocate_count_ = 0;
  std::uint64_t device_free_count_ = 0;
};

std::unique_ptr<Backend> make(NoConf, const BackendOptions& /*options*/) {
  return std::make_unique<RoundedBackend>();
}

}  // namespace

BackendEntry rounded_entry() {
  return {.name = "rounded",
          .summary = "cudaMalloc of whole MiB for every request",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = {},
          .check_conf = conf_checker(read_no_conf),
          .make = conf_maker(read_no_conf, make)};
}

}  // namespace allocmark

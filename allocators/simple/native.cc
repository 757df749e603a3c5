// The native backend: cudaMalloc and cudaFree and nothing else, the baseline that every cache is
// compared with. Requests flow in, device memory flows out; what is handed out is remembered only
// to be given back at the end.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"

namespace allocmark {
namespace {

class NativeBackend final : public Backend {
 public:
  // Gives back what is still live, waiting for the device's work as cudaFree does.
  ~NativeBackend() override {
    // A failure here means that the context is gone, and the memory with it.
    live_.for_each([](const LiveBlock& block) { (void)cudaFree(block.pointer); });
  }

  // The caller owns the block and gives it back with deallocate, on any thread; the memory is
  // usable on every stream at once. cudaMalloc may block the host while the driver maps memory, but
  // does not wait for running work.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes == 0) {
      return {};  // as cudaMalloc(0): success and a null pointer
    }
    void* pointer = nullptr;
    const cudaError_t error = cudaMalloc(&pointer, size_bytes);
    if (is_out_of_memory(error)) {
      return kOutOfMemory;
    }
    ALLOCMARK_CUDA_CHECK(error);
    const std::scoped_lock lock(mutex_);
    live_.reserve_one();
    live_.insert({.pointer = pointer, .size_bytes = size_bytes});
    ++device_allocate_count_;
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  // Blocks the host until the work running on the device is done: cudaFree does, which is what
  // orders reuse.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) {
      return;
    }
    {
      // Forgotten before it is freed: once cudaFree returns, another thread may get the address.
      const std::scoped_lock lock(mutex_);
      if (live_.erase(pointer)) {
        ++device_free_count_;
      }
    }
    ALLOCMARK_CUDA_CHECK(cudaFree(pointer));
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    // The driver rounds further (2 MiB pages), out of this backend's sight; nothing is cached here.
    return {.allocated_bytes = live_.size_bytes_total(),
            .active_bytes = live_.size_bytes_total(),
            .reserved_bytes = live_.size_bytes_total(),
            .free_other_streams_bytes = 0,
            .free_largest_bytes = 0,
            .device_allocate_count = device_allocate_count_,
            .device_free_count = device_free_count_,
            .retry_count = 0};
  }

 private:
  mutable std::mutex mutex_;  // guards what follows, never held during a CUDA call
  LiveSet live_;
  std::uint64_t device_allocate_count_ = 0;
  std::uint64_t device_free_count_ = 0;
};

std::unique_ptr<Backend> make_native(NoConf, const BackendOptions& /*options*/) {
  return std::make_unique<NativeBackend>();
}

}  // namespace

BackendEntry native_entry() {
  return {.name = "native",
          .summary = "cudaMalloc and cudaFree for every request",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = {},
          .check_conf = conf_checker(read_no_conf),
          .make = conf_maker(read_no_conf, make_native)};
}

}  // namespace allocmark

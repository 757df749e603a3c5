// Backend own_pool: a memory pool of the driver that all instances of a process share. The pool is
// made with the first instance and lives as long as the process, as libraries do that set
// themselves up once. Requests flow in, blocks of the pool flow out.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"

namespace allocmark {

BackendEntry own_pool_entry();

namespace {

// On the device that is current at the first call. Throws CudaError where the driver refuses, and
// then tries again at the next call.
cudaMemPool_t pool_of_process() {
  static const cudaMemPool_t kPool = [] {
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&properties.location.id));
    cudaMemPool_t pool = nullptr;
    ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool, &properties));
    return pool;
  }();
  return kPool;
}

class OwnPoolBackend final : public Backend {
 public:
  OwnPoolBackend() : pool_(pool_of_process()) {}
  // What the pool caches goes back to the device, so that the next instance begins with nothing.
  ~OwnPoolBackend() override {
    live_.for_each([](const LiveBlock& block) { (void)cudaFreeAsync(block.pointer, nullptr); });
    (void)cudaDeviceSynchronize();
    (void)cudaMemPoolTrimTo(pool_, 0);
  }

  // The caller owns the block and gives it back with deallocate, on any thread.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    void* pointer = nullptr;
    const cudaError_t error = cudaMallocFromPoolAsync(&pointer, size_bytes, pool_, stream);
    if (is_out_of_memory(error)) return kOutOfMemory;
    ALLOCMARK_CUDA_CHECK(error);
    const std::scoped_lock lock(mutex_);
    live_.reserve_one();
    live_.insert({.pointer = pointer, .size_bytes = size_bytes});
    return {.pointer = pointer};
  }

  // Takes ownership; the block is free for others once `stream` has come so far.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    {
      const std::scoped_lock lock(mutex_);
      (void)live_.erase(pointer);
    }
    ALLOCMARK_CUDA_CHECK(cudaFreeAsync(pointer, stream));
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t) const override {
    const std::scoped_lock lock(mutex_);
    MemoryStats stats{};
    stats.allocated_bytes = live_.size_bytes_total();
    return stats;
  }

 private:
  cudaMemPool_t pool_;
  mutable std::mutex mutex_;  // guards what follows, never held during a CUDA call
  LiveSet live_;
};

std::unique_ptr<Backend> make(NoConf, const BackendOptions& /*options*/) {
  return std::make_unique<OwnPoolBackend>();
}

}  // namespace

BackendEntry own_pool_entry() {
  return {.name = "own_pool",
          .summary = "a memory pool of the driver that the process makes once",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = {},
          .check_conf = conf_checker(read_no_conf),
          .make = conf_maker(read_no_conf, make)};
}

}  // namespace allocmark

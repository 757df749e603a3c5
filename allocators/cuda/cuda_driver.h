// The caching allocator's device, on CUDA: a real one or simcuda. Runtime calls, and the virtual
// memory functions of the driver, which are looked up at run time so that nothing links libcuda.
// Makes the same calls in the same order as PyTorch does, because their cost is part of what is
// measured.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>

#include "allocators/cuda/driver.h"
#include "base/mutex.h"

namespace allocmark {

// RMM's pool on the host derives from it: the same device, with other memory.
class CudaDriver : public caching::Driver {
 public:
  // On the current device, which must stay the current one of every thread that calls. Where
  // `released` is not null, it is a mutex that the caller holds and that is free for others while
  // cudaMalloc runs.
  explicit CudaDriver(Mutex* released);

  void check_pending_error() override;
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, caching::Stream stream) override;
  void free(std::uint64_t address) override;
  caching::DeviceMemory memory() override;
  std::uint64_t device_total_bytes() override;

  caching::Event create_event() override;
  void destroy_event(caching::Event event) override;
  void record_event(caching::Event event, caching::Stream stream) override;
  bool event_done(caching::Event event) override;
  void wait_for_event(caching::Event event) override;
  void wait_for_stream(caching::Stream stream) override;
  void wait_for_device() override;

  std::uint64_t reserve_address(std::uint64_t size_bytes) override;
  void free_address(std::uint64_t address, std::uint64_t size_bytes) override;
  std::optional<caching::PageHandle> create_page(std::uint64_t size_bytes) override;
  void release_page(caching::PageHandle page) override;
  void map_page(std::uint64_t address, std::uint64_t size_bytes, caching::PageHandle page) override;
  void unmap_page(std::uint64_t address, std::uint64_t size_bytes) override;
  void allow_access(std::uint64_t address, std::uint64_t size_bytes) override;

  void prepare_pool() override;
  std::optional<std::uint64_t> pool_allocate(std::uint64_t size_bytes,
                                             caching::Stream stream) override;
  void pool_free(std::uint64_t address, caching::Stream stream) override;
  void trim_pool() override;
  caching::PoolUsage pool_usage() override;
  caching::Stream create_stream() override;
  void destroy_stream(caching::Stream stream) override;
  void make_stream_wait(caching::Stream stream, caching::Event event) override;

 private:
  [[nodiscard]] CUresult try_create(std::uint64_t size_bytes, CUmemGenericAllocationHandle* handle);

  int device_ = 0;
  Mutex* released_;
  cudaMemPool_t pool_ = nullptr;
  // The shareable handle type asked for; PyTorch tries fabric handles first and then file
  // descriptors for good.
  std::optional<unsigned> handle_type_;
};

}  // namespace allocmark

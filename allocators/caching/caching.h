// The caching backend: PyTorch's CUDA caching allocator, decision for decision, on CUDA.
// Requests flow in, device memory flows out; the config string is PYTORCH_CUDA_ALLOC_CONF, read
// strictly. What it does is in caching/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/caching/allocator.h"
#include "allocators/caching/async_allocator.h"
#include "allocators/caching/snapshot.h"
#include "allocators/cuda/cuda_driver.h"
#include "base/mutex.h"

namespace allocmark {

namespace caching {
// What a PoolCall asks, of the allocator that has the pools.
void call_pool(CachingAllocator& allocator, PoolAction action, std::uint64_t pool, Stream stream,
               bool flag);
}  // namespace caching

class CachingBackend final : public Backend {
 public:
  // On the current device, which must stay the current one of every thread that calls.
  // memory_limit_bytes is PyTorch's memory fraction in bytes; 0: what the key
  // per_process_memory_fraction says. `device`, where it is not null, is asked in place of an own
  // one and has to outlive this.
  CachingBackend(const caching::Settings& settings, std::uint64_t memory_limit_bytes,
                 caching::Driver* device = nullptr);

  // The caller owns the block, which is usable on `stream` at once, and gives it back with
  // deallocate, on any thread. A block from the cache costs no device call; else cudaMalloc, and
  // when memory is short cudaFree and waiting for other streams, block the host. One lock is held,
  // as in PyTorch.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  // Never blocks. The block is free at once, or when the streams that record_stream named have
  // passed this point, which is noticed by a later allocate.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  // empty_cache.
  void trim() override;
  // Nothing with backend:cudaMallocAsync, which has no private pools.
  void call_pool(const PoolCall& call) override;

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  [[nodiscard]] MemoryStats totals() const override;
  // All of torch.cuda.memory_stats(), by its names, sorted.
  [[nodiscard]] std::vector<NamedCounter> counters() const override;
  [[nodiscard]] std::vector<MemorySegment> segments() const override;
  // The text of PyTorch's OutOfMemoryError.
  [[nodiscard]] std::string last_failure_text() const override;

  // PyTorch's _set_allocator_settings: returns its error text, empty where accepted. Nothing
  // changes with backend:cudaMallocAsync.
  [[nodiscard]] std::string change_settings(const std::string& conf);
  // set_per_process_memory_fraction, in bytes; 0 is none.
  void change_limit(std::uint64_t memory_limit_bytes);
  // Times that PyTorch would have given back a piece of a segment (its bug after max_split_size was
  // lowered).
  [[nodiscard]] std::uint64_t split_release_count() const;
  // Times that PyTorch's count of a private pool's memory would have gone wrong.
  [[nodiscard]] std::uint64_t pool_count_error_count() const;

  // torch.cuda.memory._snapshot()["segments"]; empty with backend:cudaMallocAsync, as PyTorch
  // cannot tell either.
  [[nodiscard]] std::vector<caching::SegmentInfo> snapshot() const;

 private:
  mutable Mutex mutex_;  // guards everything below
  std::optional<CudaDriver> own_driver_;
  caching::Driver& driver_;
  // One of the two is there.
  std::unique_ptr<caching::CachingAllocator> native_;
  std::unique_ptr<caching::AsyncAllocator> async_;
};

// Under the rules of the newest release that is known.
[[nodiscard]] BackendEntry caching_entry();
// `rules` must live as long as the entry.
[[nodiscard]] BackendEntry caching_entry(const caching::Rules& rules, std::string name);
// caching@2.9 and so on, a release each.
[[nodiscard]] std::vector<BackendEntry> caching_releases();

}  // namespace allocmark

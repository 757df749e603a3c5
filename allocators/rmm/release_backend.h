// RMM's resources on CUDA, as backends. Requests and frees flow in, each with its stream; device
// memory flows out.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/backend/forwarding_backend.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/cuda/driver.h"
#include "allocators/rmm/release_conf.h"
#include "allocators/rmm/resource.h"

namespace allocmark::rmm {

// What a release decides otherwise than the one before it.
struct ReleaseRules {
  bool pool_reclaims = false;  // rmm 2470
  bool records_joins = false;  // rmm 2490
};

class ReleaseBackend final : public Backend {
 public:
  // Of all resources but cuda_async, on memory of the driver. Takes what they start with; throws
  // EnvironmentError where there is no memory for that.
  ReleaseBackend(std::unique_ptr<caching::Driver> driver, const ReleaseConf& conf,
                 const ReleaseRules& rules);
  // Waits for the device and gives back all memory, live blocks too.
  ~ReleaseBackend() override;

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host as the resource does (pool.h, arena.h).
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  // RMM knows the stream alone that is named here: it is made to wait for those that record_stream
  // named.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  // Nothing: RMM's resources have no call that gives memory back.
  void trim() override {}

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  [[nodiscard]] MemoryStats totals() const override;
  [[nodiscard]] std::vector<NamedCounter> counters() const override;

 private:
  void stack(const ReleaseConf& conf, const ReleaseRules& rules);
  void make_wait(cudaStream_t stream, cudaStream_t other);
  [[nodiscard]] Resource& top() const { return *resources_.back(); }

  mutable std::mutex mutex_;  // guards everything below
  std::unique_ptr<caching::Driver> driver_;
  Counters counters_;
  std::vector<std::unique_ptr<Resource>> resources_;  // each stands on the one before it
  std::map<std::uint64_t, std::uint64_t> live_;       // bytes as asked, by address
  std::uint64_t used_bytes_ = 0;                      // of them, as the resource rounds
  StreamUses uses_;
};

// RMM's limiting_resource_adaptor: a request that takes what is live above the limit fails. Each
// counts as a multiple of 256 B.
class LimitedBackend final : public ForwardingBackend {
 public:
  LimitedBackend(std::unique_ptr<Backend> inner, std::uint64_t limit_bytes)
      : ForwardingBackend(*inner), inner_(std::move(inner)), limit_bytes_(limit_bytes) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  [[nodiscard]] std::vector<NamedCounter> counters() const override { return inner_->counters(); }

 private:
  const std::unique_ptr<Backend> inner_;
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
};

}  // namespace allocmark::rmm

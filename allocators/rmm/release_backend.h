// RMM's resources on CUDA, as backends. Requests and frees flow in, each with its stream; device
// memory flows out.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/backend/forwarding_backend.h"
#include "allocators/backend/pool_backend.h"
#include "allocators/cuda/driver.h"
#include "allocators/rmm/release_conf.h"
#include "allocators/rmm/resource.h"

namespace allocmark::rmm {

// What a release decides otherwise than the one before it.
struct ReleaseRules {
  bool pool_reclaims = false;  // rmm 2470
  bool records_joins = false;  // rmm 2490
};

// Of all resources but cuda_async, on memory of the driver; as PoolBackend has it.
class ReleasePool {
 public:
  // Takes what the resources start with; throws EnvironmentError where there is no memory for that.
  ReleasePool(std::unique_ptr<caching::Driver> driver, const ReleaseConf& conf,
              const ReleaseRules& rules);
  ReleasePool(const ReleasePool&) = delete;
  ReleasePool& operator=(const ReleasePool&) = delete;
  // Waits for the device and gives back all memory, live blocks too.
  ~ReleasePool();
  // Blocks the host as the resource does (pool.h, arena.h).
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream);
  // RMM knows the stream alone that is named here: it is made to wait for the others.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t stream,
                                std::span<const cudaStream_t> others);
  [[nodiscard]] MemoryStats totals() const;
  void add_free(MemoryStats& stats, caching::Stream stream) const;
  [[nodiscard]] std::vector<NamedCounter> counters() const;

 private:
  void stack(const ReleaseConf& conf, const ReleaseRules& rules);
  void make_wait(cudaStream_t stream, cudaStream_t other);
  [[nodiscard]] Resource& top() const { return *resources_.back(); }

  std::unique_ptr<caching::Driver> driver_;
  Counters counters_;
  std::vector<std::unique_ptr<Resource>> resources_;  // each stands on the one before it
  std::map<std::uint64_t, std::uint64_t> live_;       // bytes as asked, by address
  std::uint64_t used_bytes_ = 0;                      // of them, as the resource rounds
};

// RMM's resources have no call that gives memory back: nothing happens at trim().
[[nodiscard]] inline std::unique_ptr<Backend> make_release_backend(
    std::unique_ptr<caching::Driver> driver, const ReleaseConf& conf, const ReleaseRules& rules) {
  return std::make_unique<PoolBackend<ReleasePool>>("rmm resource", std::move(driver), conf, rules);
}

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

// See release_backend.h.
#include "allocators/rmm/release_backend.h"

#include <optional>
#include <utility>

#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "allocators/rmm/arena.h"
#include "allocators/rmm/fixed_size.h"
#include "allocators/rmm/pool.h"
#include "base/divided_up.h"
#include "base/error.h"

namespace allocmark::rmm {
namespace {

// What a pool or an arena starts with for which nothing is said, of what is free. A pool's is that
// of RMM's Python interface.
constexpr double kInitialShare = 0.5;

std::uint64_t initial_bytes_of(const ReleaseConf& conf) {
  return conf.initial_bytes ? *conf.initial_bytes : share_of_free_memory(kInitialShare);
}

}  // namespace

ReleasePool::ReleasePool(std::unique_ptr<caching::Driver> driver, const ReleaseConf& conf,
                         const ReleaseRules& rules)
    : driver_(std::move(driver)) {
  stack(conf, rules);
  for (const auto& resource : resources_) {
    if (resource->open()) continue;
    throw EnvironmentError({.what = "there is no memory for what RMM's resources start with",
                            .where = "rmm",
                            .wanted = "room where they take memory, and below max_mb",
                            .next = "give a smaller initial_mb, block_count or max_bin, or a "
                                    "larger max_mb"});
  }
}

ReleasePool::~ReleasePool() {
  while (!resources_.empty()) resources_.pop_back();
}

void ReleasePool::stack(const ReleaseConf& conf, const ReleaseRules& rules) {
  const Site site{.driver = *driver_, .counters = counters_};
  const auto put = [&](std::unique_ptr<Resource> made) { resources_.push_back(std::move(made)); };
  put(std::make_unique<CudaMemory>(site));
  if (conf.resource == ResourceKind::Pool || conf.on_pool) {
    put(std::make_unique<Pool>(site, top(),
                               PoolOptions{.initial_bytes = initial_bytes_of(conf),
                                           .bytes_max = conf.bytes_max,
                                           .reclaims = rules.pool_reclaims,
                                           .records_joins = rules.records_joins}));
  }
  if (conf.resource == ResourceKind::Arena) {
    put(std::make_unique<Arena>(site, top(), initial_bytes_of(conf)));
  } else if (conf.resource == ResourceKind::FixedSize) {
    put(std::make_unique<FixedSize>(site, top(),
                                    FixedSizeOptions{.block_bytes = conf.block_bytes,
                                                     .block_count = conf.block_count,
                                                     .records_joins = rules.records_joins}));
  } else if (conf.resource == ResourceKind::Binning) {
    put(std::make_unique<Binning>(
        site, top(),
        Binning::Exponents{.least = conf.bin_exponent_min, .most = conf.bin_exponent_max},
        rules.records_joins));
  }
}

std::optional<std::uint64_t> ReleasePool::allocate(std::uint64_t size_bytes,
                                                   caching::Stream stream) {
  const std::optional<std::uint64_t> address = top().allocate(size_bytes, stream);
  if (address) {
    live_.emplace(*address, size_bytes);
    used_bytes_ += top().taken_bytes(size_bytes);
  }
  return address;
}

bool ReleasePool::deallocate(std::uint64_t address, cudaStream_t stream,
                             std::span<const cudaStream_t> others) {
  const auto found = live_.find(address);
  if (found == live_.end()) return false;
  for (const cudaStream_t other : others) {
    if (other != stream) make_wait(stream, other);
  }
  const std::uint64_t size_bytes = found->second;
  top().deallocate(address, size_bytes, number_of(stream));
  used_bytes_ -= top().taken_bytes(size_bytes);
  live_.erase(found);
  return true;
}

void ReleasePool::make_wait(cudaStream_t stream, cudaStream_t other) {
  const caching::Event event = driver_->create_event();
  driver_->record_event(event, number_of(other));
  driver_->make_stream_wait(number_of(stream), event);
  driver_->destroy_event(event);
}

MemoryStats ReleasePool::totals() const {
  return {.allocated_bytes = used_bytes_,
          .active_bytes = used_bytes_,
          .reserved_bytes = counters_.device_bytes,
          .device_allocate_count = counters_.take_count,
          .device_free_count = counters_.give_count,
          .retry_count = counters_.refusal_count,
          .synchronize_all_count = counters_.device_wait_count};
}

void ReleasePool::add_free(MemoryStats& stats, caching::Stream stream) const {
  const std::uint64_t free_bytes = counters_.device_bytes - used_bytes_;
  stats.free_other_streams_bytes = free_bytes - top().free_bytes(stream);
  stats.free_largest_bytes = top().free_bytes_largest(stream);
}

std::vector<NamedCounter> ReleasePool::counters() const {
  return {named_counter("pool_size", counters_.device_bytes),
          named_counter("stream_waits", counters_.stream_wait_count)};
}

AllocateResult LimitedBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  if (size_bytes > kDeviceRequestBytesMax) return kOutOfMemory;
  const std::uint64_t rounded_bytes = rounded_up(size_bytes, kAlignmentBytes);
  AllocateResult result = kOutOfMemory;
  if (used_bytes_.fetch_add(rounded_bytes) + rounded_bytes <= limit_bytes_)
    result = inner_->allocate(size_bytes, stream);
  if (result.status != AllocateStatus::Ok) used_bytes_ -= rounded_bytes;
  return result;
}

void LimitedBackend::deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) {
  inner_->deallocate(pointer, size_bytes, stream);
  used_bytes_ -= rounded_up(size_bytes, kAlignmentBytes);
}

}  // namespace allocmark::rmm

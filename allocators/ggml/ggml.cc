// The pools on CUDA, and their entry; see ggml.h.
#include "allocators/ggml/ggml.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocators/backend/pool_backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/ggml/pools.h"
#include "allocators/ggml/stream_pools.h"

namespace allocmark {
namespace {

using ggml::LegacyPool;
using ggml::PoolCounters;

class CudaMallocMemory final : public ggml::Memory {
 public:
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    return take_device_memory(size_bytes);
  }
  void give(std::uint64_t address) override { give_device_memory(address); }
  void synchronize() override { ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize()); }
};

// As PoolBackend has it.
class GgmlPool {
 public:
  explicit GgmlPool(bool flushes) : flushes_(flushes) {}

  // Blocks the host only as the device's own calls do.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) {
    return pools_.allocate(size_bytes, stream,
                           [this] { return std::make_unique<LegacyPool>(memory_, flushes_); });
  }

  // Does not wait, but for `others`; and as cudaFree does where 256 buffers are kept already.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t /*stream*/,
                                std::span<const cudaStream_t> others) {
    return pools_.deallocate(address, others);
  }

  // What llama.cpp does where the device refuses: kept buffers go back.
  void trim() {
    for (const auto& [stream, pool] : pools_.all()) pool->clear();
  }

  [[nodiscard]] MemoryStats totals() const {
    const PoolCounters sum = counted();
    return {.allocated_bytes = sum.used_bytes,
            .active_bytes = sum.used_bytes,
            .reserved_bytes = sum.held_bytes,
            .device_allocate_count = sum.take_count,
            .device_free_count = sum.give_count,
            .retry_count = sum.retry_count,
            .synchronize_all_count = sum.retry_count};
  }

  void add_free(MemoryStats& stats, caching::Stream stream) const {
    const LegacyPool* const own = pools_.of(stream);
    const PoolCounters sum = counted();
    stats.free_other_streams_bytes =
        sum.held_bytes - sum.used_bytes - (own == nullptr ? 0 : own->kept_bytes());
    stats.free_largest_bytes = own == nullptr ? 0 : own->kept_bytes_largest();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const {
    return {named_counter("pool_size", counted().held_bytes)};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const {
    std::vector<MemorySegment> segments;
    for (const auto& [stream, pool] : pools_.all()) {
      for (const LegacyPool::Held& held : pool->held()) {
        segments.push_back(segment_of_block({.address = held.buffer.address,
                                             .size_bytes = held.buffer.size_bytes,
                                             .state = used_state(held.used)},
                                            stream));
      }
    }
    std::ranges::sort(segments, {}, &MemorySegment::address);
    return segments;
  }

 private:
  [[nodiscard]] PoolCounters counted() const {
    PoolCounters sum;
    for (const auto& [stream, pool] : pools_.all()) {
      const PoolCounters& counters = pool->counters();
      sum.used_bytes += counters.used_bytes;
      sum.held_bytes += counters.held_bytes;
      sum.take_count += counters.take_count;
      sum.give_count += counters.give_count;
      sum.retry_count += counters.retry_count;
    }
    return sum;
  }

  const bool flushes_;
  CudaMallocMemory memory_;
  ggml::StreamPools<LegacyPool> pools_;
};

struct GgmlConf {
  bool flushes = true;
};

std::unique_ptr<Backend> make_ggml(const GgmlConf& conf, const BackendOptions& /*options*/) {
  return std::make_unique<PoolBackend<GgmlPool>>("ggml backend", conf.flushes);
}

}  // namespace

BackendEntry ggml_legacy_entry() {
  const ConfFormat<GgmlConf> format{.keys = {boolean_key("flush_on_oom", &GgmlConf::flushes)}};
  return {.name = "ggml_legacy",
          .summary = "llama.cpp's pool of 256 buffers, rebuilt: best fit, never splits",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make_ggml)};
}

}  // namespace allocmark

// The pools on CUDA, and their entry; see ggml.h.
#include "allocators/ggml/ggml.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "allocators/conf/conf.h"
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

// The pool of one stream.
class StreamPool {
 public:
  explicit StreamPool(bool flushes) : pool_(memory_, flushes) {}
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes) {
    const std::optional<ggml::Buffer> buffer = pool_.allocate(size_bytes);
    return buffer ? std::optional(buffer->address) : std::nullopt;
  }
  [[nodiscard]] bool deallocate(std::uint64_t address) { return pool_.deallocate(address); }
  void clear() { pool_.clear(); }
  [[nodiscard]] const PoolCounters& counters() const { return pool_.counters(); }
  [[nodiscard]] std::uint64_t kept_bytes() const { return pool_.kept_bytes(); }
  [[nodiscard]] std::uint64_t kept_bytes_largest() const { return pool_.kept_bytes_largest(); }
  void add_segments(std::vector<MemorySegment>& segments, std::uint64_t stream) const {
    for (const LegacyPool::Held& held : pool_.held()) {
      const MemoryBlock block{
          .address = held.buffer.address,
          .size_bytes = held.buffer.size_bytes,
          .state = held.used ? MemoryBlockState::Allocated : MemoryBlockState::Free};
      segments.push_back({.address = block.address,
                          .size_bytes = block.size_bytes,
                          .is_large = true,
                          .stream = stream,
                          .allocated_bytes = held.used ? block.size_bytes : 0,
                          .blocks = {block}});
    }
  }

 private:
  CudaMallocMemory memory_;
  LegacyPool pool_;
};

class GgmlBackend final : public Backend {
 public:
  explicit GgmlBackend(bool flushes) : flushes_(flushes) {}
  // Gives back all memory, live blocks too; cudaFree waits for the device's work.
  ~GgmlBackend() override = default;

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host only as the device's own calls do.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const std::lock_guard lock(mutex_);
    return pools_.allocate(size_bytes, stream,
                           [this] { return std::make_unique<StreamPool>(flushes_); });
  }

  // Does not wait, but for streams that record_stream named for the block, of which llama.cpp knows
  // nothing; and as cudaFree does where 256 buffers are kept already.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    const std::lock_guard lock(mutex_);
    pools_.deallocate(pointer, "ggml backend");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    const std::lock_guard lock(mutex_);
    pools_.record_stream(pointer, stream);
  }

  // What llama.cpp does where the device refuses: kept buffers go back.
  void trim() override {
    const std::lock_guard lock(mutex_);
    for (const auto& [stream, pool] : pools_.all()) pool->clear();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    const StreamPool* const own = pools_.of(stream);
    const std::uint64_t cached_bytes = *stats.reserved_bytes - *stats.allocated_bytes;
    stats.free_other_streams_bytes = cached_bytes - (own == nullptr ? 0 : own->kept_bytes());
    stats.free_largest_bytes = own == nullptr ? 0 : own->kept_bytes_largest();
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return known_totals();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    return {{"pool_size", static_cast<std::int64_t>(*known_totals().reserved_bytes)}};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    return pools_.segments();
  }

 private:
  [[nodiscard]] MemoryStats known_totals() const {
    PoolCounters sum;
    for (const auto& [stream, pool] : pools_.all()) {
      const PoolCounters& counters = pool->counters();
      sum.used_bytes += counters.used_bytes;
      sum.held_bytes += counters.held_bytes;
      sum.take_count += counters.take_count;
      sum.give_count += counters.give_count;
      sum.retry_count += counters.retry_count;
    }
    return {.allocated_bytes = sum.used_bytes,
            .active_bytes = sum.used_bytes,
            .reserved_bytes = sum.held_bytes,
            .device_allocate_count = sum.take_count,
            .device_free_count = sum.give_count,
            .retry_count = sum.retry_count,
            .synchronize_all_count = sum.retry_count};
  }

  mutable std::mutex mutex_;  // guards pools_
  const bool flushes_;
  ggml::StreamPools<StreamPool> pools_;
};

struct GgmlConf {
  bool flushes = true;
};

void read_keys(ConfReader& reader, const std::vector<ConfPair>& pairs, GgmlConf& conf) {
  for (const ConfPair& pair : pairs) conf.flushes = reader.boolean(pair);
}

std::unique_ptr<Backend> make(const GgmlConf& conf, const BackendOptions& /*options*/) {
  return std::make_unique<GgmlBackend>(conf.flushes);
}

}  // namespace

BackendEntry ggml_legacy_entry() {
  const std::vector<std::string> keys = {"flush_on_oom"};
  const auto read = conf_reader(keys, GgmlConf{}, read_keys);
  return {.name = "ggml_legacy",
          .summary = "llama.cpp's pool of 256 buffers, rebuilt: best fit, never splits",
          .capabilities = {.any_thread = true, .stream_ordered = true},
          .conf_keys = keys,
          .check_conf = conf_checker(read),
          .make = conf_maker(read, make)};
}

}  // namespace allocmark

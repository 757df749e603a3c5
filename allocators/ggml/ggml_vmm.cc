// The pools on CUDA, their config key and their entry; see ggml_vmm.h.
#include "allocators/ggml/ggml_vmm.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "allocators/backend/result_at.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/ggml/stack_pool.h"
#include "base/error.h"

namespace allocmark {
namespace {

using ggml::FreeOrder;
using ggml::StackCounters;
using ggml::StackPool;

// Live blocks, freed ones that others lie on, and the room above.
MemorySegment segment_of(const StackPool& pool, std::uint64_t stream) {
  const StackCounters& counters = pool.counters();
  MemorySegment segment{.address = pool.address(),
                        .size_bytes = counters.mapped_bytes,
                        .is_large = true,
                        .is_expandable = true,
                        .stream = stream,
                        .allocated_bytes = counters.live_bytes};
  for (const StackPool::Block& block : pool.blocks()) {
    segment.blocks.push_back(
        {.address = block.address,
         .size_bytes = block.size_bytes,
         .state = block.is_free ? MemoryBlockState::Waiting : MemoryBlockState::Allocated});
  }
  if (pool.room_bytes() > 0) {
    segment.blocks.push_back({.address = pool.address() + counters.stack_bytes,
                              .size_bytes = pool.room_bytes(),
                              .state = MemoryBlockState::Free});
  }
  return segment;
}

class GgmlVmmBackend final : public Backend {
 public:
  explicit GgmlVmmBackend(FreeOrder order) : driver_(nullptr), order_(order) {}
  GgmlVmmBackend(const GgmlVmmBackend&) = delete;
  GgmlVmmBackend& operator=(const GgmlVmmBackend&) = delete;
  // Waits for the device and gives back all memory, live blocks too.
  ~GgmlVmmBackend() override { (void)cudaDeviceSynchronize(); }

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host only as the device's own calls do.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return result_at(std::nullopt);
    const std::lock_guard lock(mutex_);
    std::unique_ptr<StackPool>& pool = pools_[stream];
    if (pool == nullptr) pool = std::make_unique<StackPool>(driver_, order_);
    const std::optional<std::uint64_t> address = pool->allocate(size_bytes);
    if (address) pool_of_[*address] = pool.get();
    return result_at(address);
  }

  // Does not wait, but for streams that record_stream named for the block, of which llama.cpp knows
  // nothing.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    for (const cudaStream_t other : uses_.take(pointer))
      ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(other));
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    const auto found = pool_of_.find(address);
    if (found == pool_of_.end() || !found->second->deallocate(address))
      throw_invalid_pointer("ggml_vmm backend");
    pool_of_.erase(found);
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    uses_.add(pointer, stream);
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    const auto own = pools_.find(stream);
    stats.free_largest_bytes = own == pools_.end() ? 0 : own->second->room_bytes();
    stats.free_other_streams_bytes =
        *stats.reserved_bytes - *stats.active_bytes - *stats.free_largest_bytes;
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return known_totals();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    const MemoryStats totals = known_totals();
    return {{"pool_size", static_cast<std::int64_t>(*totals.reserved_bytes)},
            {"pool_used", static_cast<std::int64_t>(*totals.active_bytes)}};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    std::vector<MemorySegment> segments;
    for (const auto& [stream, pool] : pools_) {
      if (pool->counters().mapped_bytes > 0)
        segments.push_back(segment_of(*pool, reinterpret_cast<std::uint64_t>(stream)));
    }
    std::ranges::sort(segments, {}, &MemorySegment::address);
    return segments;
  }

 private:
  [[nodiscard]] MemoryStats known_totals() const {
    StackCounters sum;
    for (const auto& [stream, pool] : pools_) {
      const StackCounters& counters = pool->counters();
      sum.live_bytes += counters.live_bytes;
      sum.stack_bytes += counters.stack_bytes;
      sum.mapped_bytes += counters.mapped_bytes;
      sum.map_count += counters.map_count;
    }
    return {.allocated_bytes = sum.live_bytes,
            .active_bytes = sum.stack_bytes,
            .reserved_bytes = sum.mapped_bytes,
            .free_other_streams_bytes = std::nullopt,
            .free_largest_bytes = std::nullopt,
            .device_allocate_count = sum.map_count,
            .device_free_count = 0,
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

  mutable std::mutex mutex_;  // guards everything below
  CudaDriver driver_;
  const FreeOrder order_;
  std::map<cudaStream_t, std::unique_ptr<StackPool>> pools_;
  std::unordered_map<std::uint64_t, StackPool*> pool_of_;  // by address of a live block
  StreamUses uses_;
};

const std::vector<std::string>& conf_keys() {
  static const std::vector<std::string> keys = {"free_order"};
  return keys;
}

struct GgmlVmmConf {
  FreeOrder order = FreeOrder::Strict;
  std::optional<ErrorText> error;
};

GgmlVmmConf read_conf(std::string_view text) {
  ConfSplit split = split_conf(text, conf_keys());
  GgmlVmmConf conf{.error = std::move(split.error)};
  ConfReader reader(conf.error);
  for (const ConfPair& pair : split.pairs)
    conf.order = reader.word(pair, {"strict", "any"}) == 0 ? FreeOrder::Strict : FreeOrder::Any;
  return conf;
}

BackendCapabilities capabilities_with(std::string_view text) {
  const bool is_strict = read_conf(text).order == FreeOrder::Strict;
  return {.any_thread = !is_strict,
          .stream_ordered = true,
          .real_memory = true,
          .frees_in_reverse = is_strict,
          .alignment_bytes = StackPool::kAlignmentBytes};
}

std::unique_ptr<Backend> make(const BackendOptions& options) {
  const GgmlVmmConf conf = read_conf(options.conf);
  require_good_conf(conf.error);
  return std::make_unique<GgmlVmmBackend>(conf.order);
}

}  // namespace

BackendEntry ggml_vmm_entry() {
  return {.name = "ggml_vmm",
          .summary = "llama.cpp's pool of virtual memory, rebuilt: a stack of 32 GiB of addresses",
          .capabilities = capabilities_with({}),
          .conf_keys = conf_keys(),
          .check_conf = [](std::string_view conf) { return read_conf(conf).error; },
          .make = make,
          .capabilities_with = capabilities_with,
          .unavailable_reason = [] { return std::string(); }};
}

}  // namespace allocmark

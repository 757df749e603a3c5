// The backend ggml_vmm: the pool of virtual memory of llama.cpp's CUDA backend, one for each
// stream. Requests flow in, device memory flows out; stack_pool.h has the rules.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocators/backend/pool_backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/ggml/ggml.h"
#include "allocators/ggml/stack_pool.h"
#include "allocators/ggml/stream_pools.h"

namespace allocmark {
namespace {

using ggml::FreeOrder;
using ggml::StackCounters;
using ggml::StackPool;

// Live blocks, freed ones that others lie on, and the room above.
MemorySegment segment_of(const StackPool& pool, caching::Stream stream) {
  const StackCounters& counters = pool.counters();
  MemorySegment segment{.address = pool.address(),
                        .size_bytes = counters.mapped_bytes,
                        .is_large = true,
                        .is_expandable = true,
                        .stream = stream};
  for (const StackPool::Block& block : pool.blocks()) {
    add_block(segment,
              {.address = block.address,
               .size_bytes = block.size_bytes,
               .state = block.is_free ? MemoryBlockState::Waiting : MemoryBlockState::Allocated});
  }
  if (pool.room_bytes() > 0) {
    add_block(segment,
              {.address = pool.address() + counters.stack_bytes, .size_bytes = pool.room_bytes()});
  }
  return segment;
}

// As PoolBackend has it.
class GgmlVmmPool {
 public:
  explicit GgmlVmmPool(FreeOrder order) : driver_(nullptr), order_(order) {}
  // Waits for the device and gives back all memory, live blocks too.
  ~GgmlVmmPool() { (void)cudaDeviceSynchronize(); }
  GgmlVmmPool(const GgmlVmmPool&) = delete;
  GgmlVmmPool& operator=(const GgmlVmmPool&) = delete;

  // Blocks the host only as the device's own calls do.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) {
    return pools_.allocate(size_bytes, stream,
                           [this] { return std::make_unique<StackPool>(driver_, order_); });
  }

  // Does not wait, but for `others`.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t /*stream*/,
                                std::span<const cudaStream_t> others) {
    return pools_.deallocate(address, others);
  }

  [[nodiscard]] MemoryStats totals() const {
    const StackCounters sum = counted();
    return {.allocated_bytes = sum.live_bytes,
            .active_bytes = sum.stack_bytes,
            .reserved_bytes = sum.mapped_bytes,
            .device_allocate_count = sum.map_count,
            .device_free_count = 0,
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

  void add_free(MemoryStats& stats, caching::Stream stream) const {
    const StackPool* const own = pools_.of(stream);
    const std::uint64_t room_bytes = own == nullptr ? 0 : own->room_bytes();
    const StackCounters sum = counted();
    stats.free_largest_bytes = room_bytes;
    stats.free_other_streams_bytes = sum.mapped_bytes - sum.stack_bytes - room_bytes;
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const {
    const StackCounters sum = counted();
    return {named_counter("pool_size", sum.mapped_bytes),
            named_counter("pool_used", sum.stack_bytes)};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const {
    std::vector<MemorySegment> segments;
    for (const auto& [stream, pool] : pools_.all()) {
      if (pool->counters().mapped_bytes > 0) segments.push_back(segment_of(*pool, stream));
    }
    std::ranges::sort(segments, {}, &MemorySegment::address);
    return segments;
  }

 private:
  [[nodiscard]] StackCounters counted() const {
    StackCounters sum;
    for (const auto& [stream, pool] : pools_.all()) {
      const StackCounters& counters = pool->counters();
      sum.live_bytes += counters.live_bytes;
      sum.stack_bytes += counters.stack_bytes;
      sum.mapped_bytes += counters.mapped_bytes;
      sum.map_count += counters.map_count;
    }
    return sum;
  }

  CudaDriver driver_;
  const FreeOrder order_;
  ggml::StreamPools<StackPool> pools_;
};

struct GgmlVmmConf {
  FreeOrder order = FreeOrder::Strict;
};

ConfFormat<GgmlVmmConf> ggml_vmm_format() {
  return {.keys = {word_key("free_order", &GgmlVmmConf::order, {"strict", "any"})}};
}

BackendCapabilities capabilities_with(std::string_view text) {
  const bool is_strict = ggml_vmm_format()(text).conf.order == FreeOrder::Strict;
  return {.any_thread = !is_strict,
          .stream_ordered = true,
          .frees_in_reverse = is_strict,
          .alignment_bytes = StackPool::kAlignmentBytes};
}

std::unique_ptr<Backend> make_ggml_vmm(const GgmlVmmConf& conf, const BackendOptions& /*options*/) {
  return std::make_unique<PoolBackend<GgmlVmmPool>>("ggml_vmm backend", conf.order);
}

}  // namespace

BackendEntry ggml_vmm_entry() {
  return {.name = "ggml_vmm",
          .summary = "llama.cpp's pool of virtual memory, rebuilt: a stack of 32 GiB of addresses",
          .capabilities = capabilities_with({}),
          .conf_keys = ggml_vmm_format().key_names(),
          .check_conf = conf_checker(ggml_vmm_format()),
          .make = conf_maker(ggml_vmm_format(), make_ggml_vmm),
          .capabilities_with = capabilities_with};
}

}  // namespace allocmark

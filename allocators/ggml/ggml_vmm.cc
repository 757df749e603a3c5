// The backend ggml_vmm: the pool of virtual memory of llama.cpp's CUDA backend, one for each
// stream. Requests flow in, device memory flows out; stack_pool.h has the rules.
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocators/conf/conf.h"
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

// The pool of one stream.
class StreamStack {
 public:
  StreamStack(caching::Driver& driver, FreeOrder order) : pool_(driver, order) {}
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes) {
    return pool_.allocate(size_bytes);
  }
  [[nodiscard]] bool deallocate(std::uint64_t address) { return pool_.deallocate(address); }
  [[nodiscard]] const StackCounters& counters() const { return pool_.counters(); }
  [[nodiscard]] std::uint64_t room_bytes() const { return pool_.room_bytes(); }
  // Live blocks, freed ones that others lie on, and the room above.
  void add_segments(std::vector<MemorySegment>& segments, std::uint64_t stream) const {
    const StackCounters& counters = pool_.counters();
    if (counters.mapped_bytes == 0) return;
    MemorySegment segment{.address = pool_.address(),
                          .size_bytes = counters.mapped_bytes,
                          .is_large = true,
                          .is_expandable = true,
                          .stream = stream,
                          .allocated_bytes = counters.live_bytes};
    for (const StackPool::Block& block : pool_.blocks()) {
      segment.blocks.push_back(
          {.address = block.address,
           .size_bytes = block.size_bytes,
           .state = block.is_free ? MemoryBlockState::Waiting : MemoryBlockState::Allocated});
    }
    if (pool_.room_bytes() > 0) {
      segment.blocks.push_back({.address = pool_.address() + counters.stack_bytes,
                                .size_bytes = pool_.room_bytes(),
                                .state = MemoryBlockState::Free});
    }
    segments.push_back(std::move(segment));
  }

 private:
  StackPool pool_;
};

class GgmlVmmBackend final : public Backend {
 public:
  explicit GgmlVmmBackend(FreeOrder order) : driver_(nullptr), order_(order) {}
  // Waits for the device and gives back all memory, live blocks too.
  ~GgmlVmmBackend() override { (void)cudaDeviceSynchronize(); }

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host only as the device's own calls do.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const std::lock_guard lock(mutex_);
    return pools_.allocate(size_bytes, stream,
                           [this] { return std::make_unique<StreamStack>(driver_, order_); });
  }

  // Does not wait, but for streams that record_stream named for the block, of which llama.cpp knows
  // nothing.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    const std::lock_guard lock(mutex_);
    pools_.deallocate(pointer, "ggml_vmm backend");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    const std::lock_guard lock(mutex_);
    pools_.record_stream(pointer, stream);
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    const StreamStack* const own = pools_.of(stream);
    stats.free_largest_bytes = own == nullptr ? 0 : own->room_bytes();
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
    return pools_.segments();
  }

 private:
  [[nodiscard]] MemoryStats known_totals() const {
    StackCounters sum;
    for (const auto& [stream, pool] : pools_.all()) {
      const StackCounters& counters = pool->counters();
      sum.live_bytes += counters.live_bytes;
      sum.stack_bytes += counters.stack_bytes;
      sum.mapped_bytes += counters.mapped_bytes;
      sum.map_count += counters.map_count;
    }
    return {.allocated_bytes = sum.live_bytes,
            .active_bytes = sum.stack_bytes,
            .reserved_bytes = sum.mapped_bytes,
            .device_allocate_count = sum.map_count,
            .device_free_count = 0,
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

  mutable std::mutex mutex_;  // guards pools_
  CudaDriver driver_;
  const FreeOrder order_;
  ggml::StreamPools<StreamStack> pools_;
};

std::vector<std::string> conf_keys() { return {"free_order"}; }

ConfResult<FreeOrder> read_conf(std::string_view text) {
  const auto read = [](ConfReader& reader, const std::vector<ConfPair>& pairs, FreeOrder& order) {
    for (const ConfPair& pair : pairs)
      order = reader.word(pair, {"strict", "any"}) == 0 ? FreeOrder::Strict : FreeOrder::Any;
  };
  return read_pairs(text, conf_keys(), FreeOrder::Strict, read);
}

BackendCapabilities capabilities_with(std::string_view text) {
  const bool is_strict = read_conf(text).conf == FreeOrder::Strict;
  return {.any_thread = !is_strict,
          .stream_ordered = true,
          .frees_in_reverse = is_strict,
          .alignment_bytes = StackPool::kAlignmentBytes};
}

std::unique_ptr<Backend> make(FreeOrder order, const BackendOptions& /*options*/) {
  return std::make_unique<GgmlVmmBackend>(order);
}

}  // namespace

BackendEntry ggml_vmm_entry() {
  return {.name = "ggml_vmm",
          .summary = "llama.cpp's pool of virtual memory, rebuilt: a stack of 32 GiB of addresses",
          .capabilities = capabilities_with({}),
          .conf_keys = conf_keys(),
          .check_conf = conf_checker(read_conf),
          .make = conf_maker(read_conf, make),
          .capabilities_with = capabilities_with};
}

}  // namespace allocmark

// The allocator on CUDA, its config key and its entry; see xla_vmm.h.
#include "allocators/xla/xla_vmm.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocators/backend/pool_backend.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "allocators/xla/pages.h"

namespace allocmark {
namespace {

// As PoolBackend has it.
class XlaVmmPool {
 public:
  explicit XlaVmmPool(std::uint64_t budget_bytes)
      : driver_(nullptr), pages_(driver_, budget_bytes) {}

  // Blocks the host where memory is short, for freed blocks that the device still uses.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) {
    return pages_.allocate(size_bytes, stream);
  }

  // Does not block the host. XLA knows one stream; here the block keeps the order of all streams
  // that used it.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t stream,
                                std::span<const cudaStream_t> others) {
    std::vector<caching::Stream> streams{number_of(stream)};
    for (const cudaStream_t other : others) {
      if (other != stream) streams.push_back(number_of(other));
    }
    return pages_.deallocate(address, streams);
  }

  void trim() { pages_.clear(); }

  [[nodiscard]] MemoryStats totals() const {
    const xla::PagesCounters& counters = pages_.counters();
    return {.allocated_bytes = counters.used_bytes,
            .active_bytes = counters.used_bytes,
            .reserved_bytes = counters.held_bytes,
            .free_other_streams_bytes = 0,
            .device_allocate_count = counters.create_count,
            .device_free_count = counters.release_count,
            .retry_count = counters.reclaim_count,
            .synchronize_all_count = 0,
            .limit_bytes = pages_.budget_bytes()};
  }

  void add_free(MemoryStats& stats, caching::Stream /*stream*/) const {
    stats.free_largest_bytes = pages_.free_bytes_largest();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const {
    const xla::PagesCounters& counters = pages_.counters();
    return {named_counter("pa_allocated", counters.held_bytes),
            named_counter("pa_budget", pages_.budget_bytes()),
            named_counter("reclaims", counters.reclaim_count),
            named_counter("reused_blocks", counters.reuse_count),
            named_counter("waits", counters.wait_count)};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const {
    std::vector<MemorySegment> segments;
    for (const xla::Pages::Held& held : pages_.held()) {
      segments.push_back(segment_of_block({.address = held.address,
                                           .size_bytes = held.size_bytes,
                                           .state = used_state(held.used)}));
    }
    return segments;
  }

 private:
  CudaDriver driver_;
  xla::Pages pages_;
};

struct XlaVmmConf {
  double fraction = 0.75;
};

std::unique_ptr<Backend> make(const XlaVmmConf& conf, const BackendOptions& options) {
  const std::uint64_t budget_bytes = options.memory_limit_bytes != 0
                                         ? options.memory_limit_bytes
                                         : share_of_free_memory(conf.fraction);
  return std::make_unique<PoolBackend<XlaVmmPool>>("xla_vmm backend", budget_bytes);
}

}  // namespace

BackendEntry xla_vmm_entry() {
  const ConfFormat<XlaVmmConf> format{
      .keys = {fraction_key("fraction", &XlaVmmConf::fraction, false)}};
  return {.name = "xla_vmm",
          .summary = "the allocator of virtual memory of XLA and JAX (vmm), rebuilt",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .honours_memory_limit = true,
                           .limit_is_share_of_free = true},
          .conf_keys = format.key_names(),
          .check_conf = conf_checker(format),
          .make = conf_maker(format, make)};
}

}  // namespace allocmark

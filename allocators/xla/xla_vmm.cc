// The allocator on CUDA, its config key and its entry; see xla_vmm.h.
#include "allocators/xla/xla_vmm.h"

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "allocators/xla/pages.h"

namespace allocmark {
namespace {

class XlaVmmBackend final : public Backend {
 public:
  explicit XlaVmmBackend(std::uint64_t budget_bytes)
      : driver_(nullptr), pages_(driver_, budget_bytes) {}
  // Waits for the device and gives back all memory, live blocks too.
  ~XlaVmmBackend() override = default;

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host where memory is short, for freed blocks that the
  // device still uses.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return kOutOfMemory;
    const std::lock_guard lock(mutex_);
    return result_at(pages_.allocate(size_bytes, number_of(stream)));
  }

  // Does not block the host. XLA knows one stream; here the block keeps the order of all streams
  // that used it.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    std::vector<caching::Stream> streams{number_of(stream)};
    for (const cudaStream_t other : uses_.take(pointer)) {
      if (other != stream) streams.push_back(number_of(other));
    }
    if (!pages_.deallocate(reinterpret_cast<std::uint64_t>(pointer), streams))
      throw_invalid_pointer("xla_vmm backend");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    uses_.add(pointer, stream);
  }

  void trim() override {
    const std::lock_guard lock(mutex_);
    pages_.clear();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    stats.free_largest_bytes = pages_.free_bytes_largest();
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return known_totals();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    const xla::PagesCounters& counters = pages_.counters();
    return {{"pa_allocated", static_cast<std::int64_t>(counters.held_bytes)},
            {"pa_budget", static_cast<std::int64_t>(pages_.budget_bytes())},
            {"reclaims", static_cast<std::int64_t>(counters.reclaim_count)},
            {"reused_blocks", static_cast<std::int64_t>(counters.reuse_count)},
            {"waits", static_cast<std::int64_t>(counters.wait_count)}};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    std::vector<MemorySegment> segments;
    for (const xla::Pages::Held& held : pages_.held()) {
      const MemoryBlock block{
          .address = held.address,
          .size_bytes = held.size_bytes,
          .state = held.used ? MemoryBlockState::Allocated : MemoryBlockState::Free};
      segments.push_back({.address = held.address,
                          .size_bytes = held.size_bytes,
                          .is_large = true,
                          .allocated_bytes = held.used ? held.size_bytes : 0,
                          .blocks = {block}});
    }
    return segments;
  }

 private:
  [[nodiscard]] MemoryStats known_totals() const {
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

  mutable std::mutex mutex_;  // guards everything below
  CudaDriver driver_;
  xla::Pages pages_;
  StreamUses uses_;
};

struct XlaVmmConf {
  double fraction = 0.75;
};

void read_keys(ConfReader& reader, const std::vector<ConfPair>& pairs, XlaVmmConf& conf) {
  for (const ConfPair& pair : pairs) conf.fraction = reader.fraction(pair, false);
}

std::unique_ptr<Backend> make(const XlaVmmConf& conf, const BackendOptions& options) {
  const std::uint64_t budget_bytes = options.memory_limit_bytes != 0
                                         ? options.memory_limit_bytes
                                         : share_of_free_memory(conf.fraction);
  return std::make_unique<XlaVmmBackend>(budget_bytes);
}

}  // namespace

BackendEntry xla_vmm_entry() {
  const std::vector<std::string> keys = {"fraction"};
  const auto read = conf_reader(keys, XlaVmmConf{}, read_keys);
  return {.name = "xla_vmm",
          .summary = "the allocator of virtual memory of XLA and JAX (vmm), rebuilt",
          .capabilities = {.any_thread = true,
                           .stream_ordered = true,
                           .honours_memory_limit = true,
                           .limit_is_share_of_free = true},
          .conf_keys = keys,
          .check_conf = conf_checker(read),
          .make = conf_maker(read, make)};
}

}  // namespace allocmark

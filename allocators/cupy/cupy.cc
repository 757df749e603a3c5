// The heap on cudaMalloc, its config keys and its entry; see cupy.h.
#include "allocators/cupy/cupy.h"

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "allocators/backend/pool_backend.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/cuda/streams.h"
#include "allocators/cupy/heap.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

struct CupyConf {
  std::uint64_t limit_bytes = 0;  // 0: none
  double fraction = 0;            // of the device's memory; 0: none
};

void check_limits(ConfReader& reader, const std::vector<ConfPair>& pairs, CupyConf& conf) {
  if (conf.limit_bytes > 0 && conf.fraction > 0)
    reader.fail(pairs.back(), "limit or fraction, as CuPy takes one of them");
}

class CudaMallocs final : public cupy::Source {
 public:
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    return take_device_memory(size_bytes);
  }
  void give(std::uint64_t address) override { give_device_memory(address); }
};

// As PoolBackend has it.
class CupyPool {
 public:
  explicit CupyPool(std::uint64_t limit_bytes) : heap_(source_, limit_bytes) {}

  // Blocks the host only as cudaMalloc does, and as cudaFree does where the device refuses and
  // cached memory goes back.
  [[nodiscard]] std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                      caching::Stream stream) {
    return heap_.allocate({.size_bytes = size_bytes, .stream = stream});
  }

  // Does not wait, but for streams that record_stream named for the block: CuPy has no such call,
  // and its users have to wait themselves.
  [[nodiscard]] bool deallocate(std::uint64_t address, cudaStream_t /*stream*/,
                                std::span<const cudaStream_t> others) {
    wait_for_streams(others);
    return heap_.deallocate(address);
  }

  // CuPy's free_all_blocks(). Waits for the device's work, as cudaFree does.
  void trim() { heap_.free_all_blocks(); }

  [[nodiscard]] MemoryStats totals() const {
    const cupy::HeapCounters& counters = heap_.counters();
    return {.allocated_bytes = counters.used_bytes,
            .active_bytes = counters.used_bytes,
            .reserved_bytes = counters.total_bytes,
            .device_allocate_count = counters.take_count,
            .device_free_count = counters.give_count,
            .retry_count = counters.retry_count,
            .synchronize_all_count = 0,
            .limit_bytes =
                heap_.limit_bytes() == 0 ? std::nullopt : std::optional(heap_.limit_bytes())};
  }

  void add_free(MemoryStats& stats, caching::Stream stream) const {
    const cupy::HeapCounters& counters = heap_.counters();
    stats.free_other_streams_bytes =
        counters.total_bytes - counters.used_bytes - heap_.free_bytes(stream);
    stats.free_largest_bytes = heap_.free_bytes_largest(stream);
  }

  // As the pool's methods are called.
  [[nodiscard]] std::vector<NamedCounter> counters() const {
    const cupy::HeapCounters& counters = heap_.counters();
    return {named_counter("used_bytes", counters.used_bytes),
            named_counter("free_bytes", counters.total_bytes - counters.used_bytes),
            named_counter("total_bytes", counters.total_bytes),
            named_counter("n_free_blocks", heap_.free_count())};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const {
    std::vector<MemorySegment> segments;
    for (const cupy::Chunk* first : heap_.segments()) {
      MemorySegment& segment = segments.emplace_back(
          MemorySegment{.address = first->address, .is_large = true, .stream = first->stream});
      for (const cupy::Chunk* chunk = first; chunk != nullptr; chunk = chunk->next) {
        segment.size_bytes += chunk->size_bytes;
        add_block(segment, {.address = chunk->address,
                            .size_bytes = chunk->size_bytes,
                            .state = used_state(!chunk->is_free())});
      }
    }
    return segments;
  }

 private:
  CudaMallocs source_;
  cupy::Heap heap_;
};

std::uint64_t limit_of(const CupyConf& conf, std::uint64_t memory_limit_bytes) {
  if (memory_limit_bytes != 0) return memory_limit_bytes;
  if (conf.fraction == 0) return conf.limit_bytes;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return static_cast<std::uint64_t>(conf.fraction * static_cast<double>(total_bytes));
}

std::unique_ptr<Backend> make(const CupyConf& conf, const BackendOptions& options) {
  return std::make_unique<PoolBackend<CupyPool>>("cupy backend",
                                                 limit_of(conf, options.memory_limit_bytes));
}

}  // namespace

BackendEntry cupy_entry() {
  const ConfFormat<CupyConf> format{
      .keys = {bytes_key("limit", &CupyConf::limit_bytes, {.range = {.highest = kTiB}}),
               fraction_key("fraction", &CupyConf::fraction, true)},
      .check = check_limits};
  return {
      .name = "cupy",
      .summary = "CuPy 14's MemoryPool, rebuilt: best fit with splitting, by stream",
      .capabilities = {.any_thread = true, .stream_ordered = true, .honours_memory_limit = true},
      .conf_keys = format.key_names(),
      .check_conf = conf_checker(format),
      .make = conf_maker(format, make)};
}

}  // namespace allocmark

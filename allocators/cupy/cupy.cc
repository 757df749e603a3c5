// The heap on cudaMalloc, its config keys and its entry; see cupy.h.
#include "allocators/cupy/cupy.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "allocators/backend/stream_uses.h"
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

void read_keys(ConfReader& reader, const std::vector<ConfPair>& pairs, CupyConf& conf) {
  for (const ConfPair& pair : pairs) {
    if (pair.key == "limit") {
      conf.limit_bytes = reader.bytes(pair, {.range = {.lowest = 0, .highest = kTiB}});
    } else {
      conf.fraction = reader.fraction(pair, true);
    }
    if (conf.limit_bytes > 0 && conf.fraction > 0) {
      reader.fail(pair, "limit or fraction, as CuPy takes one of them");
    }
  }
}

class CudaMallocs final : public cupy::Source {
 public:
  std::optional<std::uint64_t> take(std::uint64_t size_bytes) override {
    return take_device_memory(size_bytes);
  }
  void give(std::uint64_t address) override { give_device_memory(address); }
};

class CupyBackend final : public Backend {
 public:
  explicit CupyBackend(std::uint64_t limit_bytes) : heap_(source_, limit_bytes) {}
  // Gives back all memory, live blocks too; cudaFree waits for the device's work.
  ~CupyBackend() override = default;

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate, on any thread. Blocks the host only as cudaMalloc does, and as
  // cudaFree does where the device refuses and cached memory goes back.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return kOutOfMemory;
    const std::lock_guard lock(mutex_);
    return result_at(heap_.allocate({.size_bytes = size_bytes, .stream = number_of(stream)}));
  }

  // Does not wait, but for streams that record_stream named for the block: CuPy has no such call,
  // and its users have to wait themselves.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    wait_for_streams(uses_.take(pointer));
    if (heap_.deallocate(reinterpret_cast<std::uint64_t>(pointer))) return;
    throw_invalid_pointer("cupy backend");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    uses_.add(pointer, stream);
  }

  // CuPy's free_all_blocks(). Waits for the device's work, as cudaFree does.
  void trim() override {
    const std::lock_guard lock(mutex_);
    heap_.free_all_blocks();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    const std::uint64_t cached_bytes = *stats.reserved_bytes - *stats.allocated_bytes;
    stats.free_other_streams_bytes = cached_bytes - heap_.free_bytes(number_of(stream));
    stats.free_largest_bytes = heap_.free_bytes_largest(number_of(stream));
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return known_totals();
  }

  // As the pool's methods are called.
  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    const cupy::HeapCounters& counters = heap_.counters();
    const auto number = [](std::uint64_t value) { return static_cast<std::int64_t>(value); };
    return {{"used_bytes", number(counters.used_bytes)},
            {"free_bytes", number(counters.total_bytes - counters.used_bytes)},
            {"total_bytes", number(counters.total_bytes)},
            {"n_free_blocks", number(heap_.free_count())}};
  }

  [[nodiscard]] std::vector<MemorySegment> segments() const override {
    const std::lock_guard lock(mutex_);
    std::vector<MemorySegment> segments;
    for (const cupy::Chunk* first : heap_.segments()) segments.push_back(segment_from(first));
    return segments;
  }

 private:
  [[nodiscard]] MemoryStats known_totals() const {
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

  static MemorySegment segment_from(const cupy::Chunk* first) {
    MemorySegment segment{.address = first->address, .is_large = true, .stream = first->stream};
    std::uint64_t allocated_bytes = 0;
    for (const cupy::Chunk* chunk = first; chunk != nullptr; chunk = chunk->next) {
      segment.size_bytes += chunk->size_bytes;
      if (!chunk->is_free()) allocated_bytes += chunk->size_bytes;
      segment.blocks.push_back(
          {.address = chunk->address,
           .size_bytes = chunk->size_bytes,
           .state = chunk->is_free() ? MemoryBlockState::Free : MemoryBlockState::Allocated});
    }
    segment.allocated_bytes = allocated_bytes;
    return segment;
  }

  mutable std::mutex mutex_;  // guards everything below
  CudaMallocs source_;
  cupy::Heap heap_;
  StreamUses uses_;
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
  return std::make_unique<CupyBackend>(limit_of(conf, options.memory_limit_bytes));
}

}  // namespace

BackendEntry cupy_entry() {
  const std::vector<std::string> keys = {"limit", "fraction"};
  const auto read = conf_reader(keys, CupyConf{}, read_keys);
  return {
      .name = "cupy",
      .summary = "CuPy 14's MemoryPool, rebuilt: best fit with splitting, by stream",
      .capabilities = {.any_thread = true, .stream_ordered = true, .honours_memory_limit = true},
      .conf_keys = keys,
      .check_conf = conf_checker(read),
      .make = conf_maker(read, make)};
}

}  // namespace allocmark

// Thrust's pool behind the interface; see thrust_pool.h. The class is here and not in the header so
// that no one else compiles Thrust.
#include "allocators/simple/thrust_pool.h"

#include <thrust/mr/disjoint_pool.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/mr/new.h>
#include <thrust/mr/pool_options.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/streams.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kCountMax = std::uint64_t{1} << 30;
constexpr std::uint64_t kBytesMax = kTiB;

thrust::mr::pool_options to_options(const ThrustPoolConf& conf) {
  thrust::mr::pool_options options{};
  options.min_blocks_per_chunk = conf.min_blocks_per_chunk;
  options.min_bytes_per_chunk = conf.min_bytes_per_chunk;
  options.max_blocks_per_chunk = conf.max_blocks_per_chunk;
  options.max_bytes_per_chunk = conf.max_bytes_per_chunk;
  options.smallest_block_size = conf.smallest_block_size;
  options.largest_block_size = conf.largest_block_size;
  options.alignment = conf.alignment;
  options.cache_oversized = conf.cache_oversized;
  options.cached_size_cutoff_factor = conf.cached_size_cutoff_factor;
  options.cached_alignment_cutoff_factor = conf.cached_alignment_cutoff_factor;
  return options;
}

// The pool only asserts that its options fit together, and runs wild in release builds where they
// do not.
std::string misfit(const ThrustPoolConf& conf) {
  if (conf.smallest_block_size > conf.largest_block_size) {
    return "smallest_block_size <= largest_block_size";
  }
  if (conf.alignment > conf.smallest_block_size) {
    return "alignment <= smallest_block_size";
  }
  if (conf.min_blocks_per_chunk > conf.max_blocks_per_chunk) {
    return "min_blocks_per_chunk <= max_blocks_per_chunk";
  }
  if (conf.min_bytes_per_chunk > conf.max_bytes_per_chunk) {
    return "min_bytes_per_chunk <= max_bytes_per_chunk";
  }
  if (conf.min_blocks_per_chunk > conf.max_bytes_per_chunk / conf.largest_block_size) {
    return "min_blocks_per_chunk * largest_block_size <= max_bytes_per_chunk";
  }
  if (!to_options(conf).validate()) {
    return "max_blocks_per_chunk * smallest_block_size >= min_bytes_per_chunk";
  }
  return {};
}

void check_fit(ConfReader& reader, const std::vector<ConfPair>& pairs, ThrustPoolConf& conf) {
  const std::string wanted = misfit(conf);
  if (!wanted.empty() && !pairs.empty()) reader.fail(pairs.back(), wanted);
}

ConfFormat<ThrustPoolConf> thrust_pool_format() {
  using Conf = ThrustPoolConf;
  constexpr ConfRange kCounts{.lowest = 1, .highest = kCountMax};
  constexpr ConfReader::BytesRule kChunks{.range = {.lowest = 1, .highest = kBytesMax}};
  constexpr ConfReader::BytesRule kBlocks{.range = {.lowest = 1, .highest = kGiB},
                                          .power_of_two = true};
  // cudaMalloc documents no more than 256, and the pool asks it for no more than it gives.
  constexpr ConfReader::BytesRule kAlignments{.range = {.lowest = 16, .highest = 256},
                                              .power_of_two = true};
  return {
      .keys = {number_key("min_blocks_per_chunk", &Conf::min_blocks_per_chunk, kCounts),
               bytes_key("min_bytes_per_chunk", &Conf::min_bytes_per_chunk, kChunks),
               number_key("max_blocks_per_chunk", &Conf::max_blocks_per_chunk, kCounts),
               bytes_key("max_bytes_per_chunk", &Conf::max_bytes_per_chunk, kChunks),
               bytes_key("smallest_block_size", &Conf::smallest_block_size, kBlocks),
               bytes_key("largest_block_size", &Conf::largest_block_size, kBlocks),
               bytes_key("alignment", &Conf::alignment, kAlignments),
               boolean_key("cache_oversized", &Conf::cache_oversized),
               number_key("cached_size_cutoff_factor", &Conf::cached_size_cutoff_factor, kCounts),
               number_key("cached_alignment_cutoff_factor", &Conf::cached_alignment_cutoff_factor,
                          kCounts),
               word_key("sync_at_free", &Conf::sync_always, {"recorded", "always"})},
      .check = check_fit};
}

// What the pool takes its memory from. Thrust's protocol for "out of memory" is std::bad_alloc.
class CudaMallocResource final : public thrust::mr::memory_resource<void*> {
 public:
  void* do_allocate(std::size_t size_bytes, std::size_t /*alignment*/) override {
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, size_bytes);
    if (is_out_of_memory(error)) {
      throw std::bad_alloc();
    }
    ALLOCMARK_CUDA_CHECK(error);
    size_bytes_by_pointer_.emplace(block, size_bytes);
    reserved_bytes_ += size_bytes;
    ++allocate_count_;
    return block;
  }

  // Never throws: the pool calls it from its destructor, and half-way through releasing its memory.
  void do_deallocate(void* block, std::size_t size_bytes, std::size_t /*alignment*/) override {
    (void)cudaFree(block);
    (void)cudaGetLastError();
    size_bytes_by_pointer_.erase(block);
    reserved_bytes_ -= size_bytes;
    ++free_count_;
  }

  [[nodiscard]] std::uint64_t size_bytes_of(void* block) const {
    return size_bytes_by_pointer_.at(block);
  }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_bytes_; }
  [[nodiscard]] std::uint64_t allocate_count() const { return allocate_count_; }
  [[nodiscard]] std::uint64_t free_count() const { return free_count_; }

 private:
  std::unordered_map<void*, std::uint64_t> size_bytes_by_pointer_;
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t allocate_count_ = 0;
  std::uint64_t free_count_ = 0;
};

class ThrustPoolBackend final : public Backend {
 public:
  explicit ThrustPoolBackend(const ThrustPoolConf& conf)
      : conf_(conf), pool_(&upstream_, &bookkeeper_, to_options(conf)) {}
  // The pool gives back all it took, live blocks too; cudaFree waits for the device's work.
  ~ThrustPoolBackend() override = default;

  // The caller owns the block and gives it back with deallocate, on the same thread: the pool has
  // no lock. The stream plays no part. Blocks the host only as cudaMalloc does, for a new chunk or
  // an oversized block. Out of memory: the pool neither gives back what it caches nor tries again.
  // Size 0 gets a block of the smallest size.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes > kBytesMax * 256) {
      return kOutOfMemory;  // no device has it, and sizes near 2^64 overflow in the pool's cache
    }
    try {
      void* const pointer = pool_.do_allocate(size_bytes, conf_.alignment);
      allocated_bytes_ += block_bytes(pointer, size_bytes);
      ++live_count_;
      return {.pointer = pointer, .status = AllocateStatus::Ok};
    } catch (const std::bad_alloc&) {
      return kOutOfMemory;
    }
  }

  // Blocks the host until the streams are done that record_stream named for the block (and then its
  // own, too); with sync_at_free:always every time for the block's stream. Otherwise only as
  // cudaFree does, for an oversized block that is not cached.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    if (pointer == nullptr) {
      return;
    }
    const std::vector<cudaStream_t> others = uses_.take(pointer);
    wait_for_streams(others);
    if (conf_.sync_always || !others.empty()) {
      ALLOCMARK_CUDA_CHECK(cudaStreamSynchronize(stream));
    }
    allocated_bytes_ -= block_bytes(pointer, size_bytes);
    --live_count_;
    pool_.do_deallocate(pointer, size_bytes, conf_.alignment);
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer != nullptr) {
      uses_.add(pointer, stream);
    }
  }

  // Thrust can give back only everything at once, so nothing happens while a block is live.
  void trim() override {
    if (live_count_ == 0) {
      pool_.release();
    }
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    // Free blocks sit in private lists of the pool.
    return {.allocated_bytes = allocated_bytes_,
            .active_bytes = allocated_bytes_,
            .reserved_bytes = upstream_.reserved_bytes(),
            .free_other_streams_bytes = 0,
            .device_allocate_count = upstream_.allocate_count(),
            .device_free_count = upstream_.free_count(),
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

 private:
  // What a request of this size really holds.
  [[nodiscard]] std::uint64_t block_bytes(void* pointer, std::uint64_t size_bytes) const {
    if (size_bytes > conf_.largest_block_size) {
      return upstream_.size_bytes_of(pointer);
    }
    return std::bit_ceil(std::max(size_bytes, conf_.smallest_block_size));
  }

  ThrustPoolConf conf_;
  CudaMallocResource upstream_;
  thrust::mr::new_delete_resource bookkeeper_;
  thrust::mr::disjoint_unsynchronized_pool_resource<CudaMallocResource,
                                                    thrust::mr::new_delete_resource>
      pool_;
  StreamUses uses_;
  std::uint64_t allocated_bytes_ = 0;
  std::uint64_t live_count_ = 0;
};

std::unique_ptr<Backend> make_thrust_pool(const ThrustPoolConf& conf,
                                          const BackendOptions& /*options*/) {
  return std::make_unique<ThrustPoolBackend>(conf);
}

}  // namespace

ConfResult<ThrustPoolConf> read_thrust_pool_conf(std::string_view text) {
  return thrust_pool_format()(text);
}

BackendEntry thrust_pool_entry() {
  return {.name = "thrust_pool",
          .summary = "Thrust's disjoint_unsynchronized_pool_resource over cudaMalloc",
          .capabilities = {.alignment_bytes = 16},
          .conf_keys = thrust_pool_format().key_names(),
          .check_conf = conf_checker(read_thrust_pool_conf),
          .make = conf_maker(read_thrust_pool_conf, make_thrust_pool)};
}

}  // namespace allocmark

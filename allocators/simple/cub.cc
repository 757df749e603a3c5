// CUB's caching allocator behind the interface; see cub.h. The class is here and not in the header
// so that no one else compiles CUB.
#include "allocators/simple/cub.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"

// Deprecated by CCCL in 2026 and announced to go with its version 4; where it is gone this backend
// says so.
#if __has_include(<cub/util_allocator.cuh>)
#define ALLOCMARK_HAVE_CUB_ALLOCATOR 1
#define CCCL_IGNORE_DEPRECATED_API
#include <cub/util_allocator.cuh>
#else
#define ALLOCMARK_HAVE_CUB_ALLOCATOR 0
#endif

namespace allocmark {
namespace {

// CUB computes its smallest bin in 32 bits, and searches bins with 64-bit sizes.
constexpr std::uint64_t kSmallestBinBytesMax = std::uint64_t{1} << 31;
constexpr std::uint64_t kLargestBinBytesMax = std::uint64_t{1} << 48;

// base^exponent, or UINT64_MAX where that is above 2^63.
std::uint64_t power(std::uint64_t base, std::uint64_t exponent) {
  std::uint64_t result = 1;
  for (std::uint64_t index = 0; index < exponent; ++index) {
    if (result > (std::uint64_t{1} << 63) / base) {
      return UINT64_MAX;
    }
    result *= base;
  }
  return result;
}

// Which bins a string means is known only when all of it is read; the error stands at the last key
// about bins.
void check_bins(ConfReader& reader, const std::vector<ConfPair>& pairs, CubConf& conf) {
  const ConfPair* last = nullptr;
  for (const ConfPair& pair : pairs) {
    if (pair.key != "max_cached_mb") {
      last = &pair;
    }
  }
  if (last == nullptr) {
    return;
  }
  if (conf.min_bin > conf.max_bin) {
    reader.fail(*last, "min_bin <= max_bin (unset: bin_growth 8, min_bin 3, max_bin 7)");
  }
  if (power(conf.bin_growth, conf.min_bin) > kSmallestBinBytesMax) {
    reader.fail(*last, "bin_growth^min_bin of at most 2 GiB, where CUB's 32-bit arithmetic ends");
  }
  if (power(conf.bin_growth, conf.max_bin) > kLargestBinBytesMax) {
    reader.fail(*last, "bin_growth^max_bin of at most 256 TiB, more than any device has");
  }
}

void read_cached_max(ConfReader& reader, const ConfPair& pair, CubConf& conf) {
  conf.cached_bytes_max =
      pair.value == "max" ? UINT64_MAX : reader.number(pair, {.highest = UINT64_MAX / kMiB}) * kMiB;
}

ConfFormat<CubConf> cub_format() {
  return {.keys = {number_key("bin_growth", &CubConf::bin_growth, {.lowest = 2, .highest = 1024}),
                   number_key("min_bin", &CubConf::min_bin, {.highest = 31}),
                   number_key("max_bin", &CubConf::max_bin, {.highest = 48}),
                   {"max_cached_mb", read_cached_max}},
          .check = check_bins};
}

#if ALLOCMARK_HAVE_CUB_ALLOCATOR

// No real device has more; CUB's rounding runs in circles for sizes near 2^64.
constexpr std::uint64_t kRequestBytesMax = std::uint64_t{1} << 48;

std::size_t cached_bytes_max(const CubConf& conf) {
  const std::uint64_t largest_bin_bytes = power(conf.bin_growth, conf.max_bin);
  return conf.cached_bytes_max.value_or(largest_bin_bytes * 3 - 1);
}

class CubBackend final : public Backend {
 public:
  explicit CubBackend(const CubConf& conf)
      : cub_(conf.bin_growth, conf.min_bin, conf.max_bin, cached_bytes_max(conf)) {
    ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device_));
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }

  // CUB's destructor gives back what is cached and forgets what is live; that is made up for here.
  // After the wait the streams of live blocks are not touched: they may be gone.
  ~CubBackend() override {
    (void)cudaDeviceSynchronize();
    for (const auto& block : cub_.live_blocks) {
      (void)cudaFree(block.d_ptr);
      (void)cudaEventDestroy(block.ready_event);
    }
    cub_.live_blocks.clear();
    (void)cudaEventDestroy(event_);
    (void)cudaGetLastError();
  }

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate, on the same thread. On a miss CUB calls cudaMalloc; where that
  // fails it gives everything cached back (cudaFree waits for the device) and tries once more.
  // Size 0 gets a block of the smallest bin.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes > kRequestBytesMax) {
      return kOutOfMemory;
    }
    void* pointer = nullptr;
    const cudaError_t error = cub_.DeviceAllocate(device_, &pointer, size_bytes, stream);
    if (is_out_of_memory(error)) {
      return kOutOfMemory;
    }
    ALLOCMARK_CUDA_CHECK(error);
    return {.pointer = pointer, .status = AllocateStatus::Ok};
  }

  // Does not wait for the device where the block is cached (CUB records an event on the block's
  // stream, and another stream gets the block only when that event is done); does where it goes to
  // cudaFree. Streams named by record_stream are waited for on the device, by the block's stream,
  // since CUB orders reuse behind that one only.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) override {
    if (pointer == nullptr) {
      return;
    }
    wait_for_uses(pointer, stream);
    ALLOCMARK_CUDA_CHECK(cub_.DeviceFree(device_, pointer));
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) {
      return;
    }
    const std::scoped_lock lock(uses_mutex_);
    uses_.add(pointer, stream);
    has_uses_.store(true, std::memory_order_relaxed);
  }

  void trim() override { ALLOCMARK_CUDA_CHECK(cub_.FreeAllCached()); }

  // Reads CUB's own tables, which its class leaves public.
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::scoped_lock lock(cub_.mutex);
    std::uint64_t largest_bytes = 0;
    std::uint64_t other_streams_bytes = 0;
    for (const auto& block : cub_.cached_blocks) {
      if (block.associated_stream != stream &&
          cudaEventQuery(block.ready_event) == cudaErrorNotReady) {
        other_streams_bytes += block.bytes;
      } else if (block.bytes > largest_bytes) {
        largest_bytes = block.bytes;
      }
    }
    const auto found = cub_.cached_bytes.find(device_);
    const bool used = found != cub_.cached_bytes.end();
    const std::uint64_t live_bytes = used ? found->second.live : 0;
    const std::uint64_t cached_bytes = used ? found->second.free : 0;
    return {.allocated_bytes = live_bytes,
            .reserved_bytes = live_bytes + cached_bytes,
            .free_other_streams_bytes = other_streams_bytes,
            .free_largest_bytes = largest_bytes};
  }

 private:
  void wait_for_uses(void* pointer, cudaStream_t stream) {
    // Programs without record_stream never take this lock: CUB has its own, and two would be
    // measured.
    if (!has_uses_.load(std::memory_order_relaxed)) {
      return;
    }
    const std::scoped_lock lock(uses_mutex_);
    for (const cudaStream_t other : uses_.take(pointer)) {
      ALLOCMARK_CUDA_CHECK(cudaEventRecord(event_, other));
      ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
    }
  }

  int device_ = 0;
  cudaEvent_t event_ = nullptr;  // re-recorded for every wait: a wait keeps the state it saw
  mutable cub::CachingDeviceAllocator cub_;
  std::atomic<bool> has_uses_ = false;
  std::mutex uses_mutex_;  // guards uses_ and the order of record and wait on event_
  StreamUses uses_;
};

std::unique_ptr<Backend> make_cub(const CubConf& conf, const BackendOptions& /*options*/) {
  return std::make_unique<CubBackend>(conf);
}

std::string cub_unavailable() { return {}; }

#else

std::string cub_unavailable() {
  return "built with a CCCL that has no cub::CachingDeviceAllocator any more (it left with version "
         "4)";
}

std::unique_ptr<Backend> make_cub(const CubConf& /*conf*/, const BackendOptions& /*options*/) {
  throw EnvironmentError({.what = "the cub backend is not available",
                          .got = cub_unavailable(),
                          .next = "rebuild with an older CUDA toolkit, or use another allocator"});
}

#endif

}  // namespace

ConfResult<CubConf> read_cub_conf(std::string_view text) { return cub_format()(text); }

BackendEntry cub_entry() {
  return {.name = "cub",
          .summary = "cub::CachingDeviceAllocator: power-of-N bins over cudaMalloc",
          // CUB locks its tables, but from 1.14 on DeviceFree offers a block to others before it
          // has recorded the block's event (BACKENDS.md).
          .capabilities = {.any_thread = false, .stream_ordered = true},
          .conf_keys = cub_format().key_names(),
          .check_conf = conf_checker(read_cub_conf),
          .make = conf_maker(read_cub_conf, make_cub),
          .unavailable_reason = cub_unavailable};
}

}  // namespace allocmark

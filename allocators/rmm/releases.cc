// The pool on CUDA, what a release changed, config keys and entries; see releases.h.
#include "allocators/rmm/releases.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "allocators/backend/result_at.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/cuda_driver.h"
#include "allocators/cuda/device_memory.h"
#include "allocators/rmm/pool.h"
#include "allocators/simple/async.h"
#include "base/bytes.h"
#include "base/error.h"

namespace allocmark {
namespace {

using rmm::Pool;
using rmm::PoolOptions;

// What a release decides otherwise than the one before it.
struct Release {
  std::string_view version;
  bool pool_reclaims = false;  // rmm 2470
  // What cuda_async keeps at a wait: the card's memory, or all.
  bool keeps_all = false;
};
constexpr std::array kReleases{
    Release{.version = "25.12", .pool_reclaims = false, .keeps_all = false},
    Release{.version = "26.04", .pool_reclaims = false, .keeps_all = false},
    Release{.version = "26.06", .pool_reclaims = false, .keeps_all = true},
    Release{.version = "26.10", .pool_reclaims = true, .keeps_all = true},
};

// A pool for which nothing is said starts with this share of what is free, as in RMM's Python
// interface.
constexpr double kInitialShare = 0.5;
constexpr std::uint64_t kPoolUnitBytes = 256;

caching::Stream number_of(cudaStream_t stream) { return reinterpret_cast<caching::Stream>(stream); }

class RmmPoolBackend final : public Backend {
 public:
  // Takes the initial size. Throws EnvironmentError where the device has it not.
  explicit RmmPoolBackend(const PoolOptions& options) : driver_(nullptr), pool_(driver_, options) {
    if (pool_.open()) return;
    throw EnvironmentError({.what = "the device has not the memory that the pool starts with",
                            .where = "rmm pool",
                            .wanted = format_bytes(options.initial_bytes),
                            .got = {},
                            .next = "give a smaller initial_mb"});
  }
  RmmPoolBackend(const RmmPoolBackend&) = delete;
  RmmPoolBackend& operator=(const RmmPoolBackend&) = delete;
  // Waits for the device and gives back all memory, live blocks too.
  ~RmmPoolBackend() override = default;

  // The caller owns the block, which is usable on `stream` from this point of its order on, and
  // gives it back with deallocate. Blocks the host only as cudaMalloc does, and since 26.10 where
  // memory goes back to make room below a maximum.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    if (size_bytes == 0) return {};
    if (size_bytes > kDeviceRequestBytesMax) return result_at(std::nullopt);
    const std::lock_guard lock(mutex_);
    return result_at(pool_.allocate(size_bytes, number_of(stream)));
  }

  // RMM knows the stream alone that is named here: it is made to wait for those that record_stream
  // named. The host does not wait.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    for (const cudaStream_t other : uses_.take(pointer)) {
      if (other != stream) make_wait(stream, other);
    }
    if (!pool_.deallocate(reinterpret_cast<std::uint64_t>(pointer), number_of(stream)))
      throw_invalid_pointer("rmm pool");
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::lock_guard lock(mutex_);
    uses_.add(pointer, stream);
  }

  // Nothing: RMM's pool has no call that gives memory back.
  void trim() override {}

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = known_totals();
    const std::uint64_t free_bytes = *stats.reserved_bytes - *stats.allocated_bytes;
    stats.free_other_streams_bytes = free_bytes - pool_.free_bytes(number_of(stream));
    stats.free_largest_bytes = pool_.free_bytes_largest(number_of(stream));
    return stats;
  }

  [[nodiscard]] MemoryStats totals() const override {
    const std::lock_guard lock(mutex_);
    return known_totals();
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::lock_guard lock(mutex_);
    return {{"pool_size", static_cast<std::int64_t>(pool_.counters().pool_bytes)},
            {"stream_waits", static_cast<std::int64_t>(pool_.counters().wait_count)}};
  }

 private:
  void make_wait(cudaStream_t stream, cudaStream_t other) {
    const caching::Event event = driver_.create_event();
    driver_.record_event(event, number_of(other));
    driver_.make_stream_wait(number_of(stream), event);
    driver_.destroy_event(event);
  }

  [[nodiscard]] MemoryStats known_totals() const {
    const rmm::PoolCounters& counters = pool_.counters();
    return {.allocated_bytes = counters.used_bytes,
            .active_bytes = counters.used_bytes,
            .reserved_bytes = counters.pool_bytes,
            .free_other_streams_bytes = std::nullopt,
            .free_largest_bytes = std::nullopt,
            .device_allocate_count = counters.take_count,
            .device_free_count = counters.give_count,
            .retry_count = counters.refusal_count,
            .synchronize_all_count = 0};
  }

  mutable std::mutex mutex_;  // guards everything below
  CudaDriver driver_;
  Pool pool_;
  StreamUses uses_;
};

const std::vector<std::string>& conf_keys() {
  static const std::vector<std::string> keys = {"resource", "initial_mb", "initial_bytes", "max_mb",
                                                "release_threshold_mb"};
  return keys;
}

struct RmmReleaseConf {
  bool is_async = false;
  std::optional<std::uint64_t> initial_bytes = std::nullopt, bytes_max = std::nullopt;
  std::optional<std::uint64_t> threshold_bytes = std::nullopt;
  std::optional<ErrorText> error;
};

RmmReleaseConf read_conf(std::string_view text) {
  ConfSplit split = split_conf(text, conf_keys());
  RmmReleaseConf conf{.error = std::move(split.error)};
  ConfReader reader(conf.error);
  constexpr ConfRange kMegabytes{.lowest = 0, .highest = kTiB / kMiB};
  for (const ConfPair& pair : split.pairs) {
    if (pair.key == "resource") {
      conf.is_async = reader.word(pair, {"pool", "cuda_async"}) == 1;
    } else if (pair.key == "initial_mb") {
      conf.initial_bytes = reader.number(pair, kMegabytes) * kMiB;
    } else if (pair.key == "initial_bytes") {
      conf.initial_bytes = reader.number(pair, {.lowest = 0, .highest = kTiB});
      if (*conf.initial_bytes % kPoolUnitBytes != 0) reader.fail(pair, "a multiple of 256");
    } else if (pair.key == "max_mb") {
      conf.bytes_max = reader.number(pair, kMegabytes) * kMiB;
    } else {
      conf.threshold_bytes = reader.number(pair, kMegabytes) * kMiB;
    }
  }
  for (const ConfPair& pair : split.pairs) {
    const bool is_of_async = pair.key == "release_threshold_mb";
    if (pair.key != "resource" && is_of_async != conf.is_async)
      reader.fail(pair, "a key of the chosen resource");
  }
  if (conf.initial_bytes && conf.bytes_max && *conf.initial_bytes > *conf.bytes_max)
    reader.fail(split.pairs.back(), "initial size <= max_mb");
  return conf;
}

std::uint64_t card_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes;
}

std::unique_ptr<Backend> make(const Release& release, const BackendOptions& options) {
  const RmmReleaseConf conf = read_conf(options.conf);
  require_good_conf(conf.error);
  if (conf.is_async) {
    AsyncConf async;
    async.own_pool = true;
    async.release_threshold_bytes =
        conf.threshold_bytes.value_or(release.keeps_all ? UINT64_MAX : card_bytes());
    return std::make_unique<AsyncBackend>(async, options.memory_limit_bytes);
  }
  return std::make_unique<RmmPoolBackend>(
      PoolOptions{.initial_bytes = conf.initial_bytes.value_or(share_of_free_memory(kInitialShare)),
                  .bytes_max = conf.bytes_max,
                  .reclaims = release.pool_reclaims});
}

BackendEntry entry_of(const Release& release) {
  return {.name = "rmm@" + std::string(release.version),
          .summary = "RMM " + std::string(release.version) + "'s pool or cuda_async, rebuilt",
          .capabilities = {.any_thread = true, .stream_ordered = true, .real_memory = true},
          .conf_keys = conf_keys(),
          .check_conf = [](std::string_view conf) { return read_conf(conf).error; },
          .make = [&release](const BackendOptions& options) { return make(release, options); },
          .unavailable_reason = [] { return std::string(); }};
}

}  // namespace

std::vector<BackendEntry> rmm_releases() {
  std::vector<BackendEntry> entries;
  for (const Release& release : kReleases) entries.push_back(entry_of(release));
  return entries;
}

}  // namespace allocmark

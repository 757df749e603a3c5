// The stream-ordered allocator behind the interface; see async.h.
#include "allocators/simple/async.h"

#include <memory>

#include "allocators/conf/conf.h"
#include "allocators/conf/conf_value.h"
#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kMegabytesMax = UINT64_MAX / kMiB;

// The default pool belongs to the process.
void check_pool(ConfReader& reader, const std::vector<ConfPair>& pairs, AsyncConf& conf) {
  for (const ConfPair& pair : pairs) {
    if (pair.key == "max_size_mb" && !conf.own_pool) {
      reader.fail(pair, "pool:own beside it: the default pool's size cannot be limited");
    }
  }
}

ConfFormat<AsyncConf> async_format() {
  constexpr ConfRange kSizes{.lowest = 1, .highest = kMegabytesMax};
  return {
      .keys = {word_key("pool", &AsyncConf::own_pool, {"default", "own"}), release_threshold_key(),
               boolean_key("reuse_follow_event_dependencies",
                           &AsyncConf::reuse_follow_event_dependencies),
               boolean_key("reuse_allow_opportunistic", &AsyncConf::reuse_allow_opportunistic),
               boolean_key("reuse_allow_internal_dependencies",
                           &AsyncConf::reuse_allow_internal_dependencies),
               number_key("max_size_mb", &AsyncConf::max_size_bytes, kSizes, kMiB)},
      .check = check_pool};
}

// CUDA 12.0 has no maxSize; where it is missing, the wish cannot be met and must not be dropped in
// silence.
template <typename Properties>
void set_max_size(Properties& properties, std::uint64_t max_size_bytes) {
  if constexpr (requires { properties.maxSize; }) {
    properties.maxSize = max_size_bytes;
  } else if (max_size_bytes != 0) {
    throw EnvironmentError({.what = "this CUDA toolkit's pools have no maximum size",
                            .where = "async, key max_size_mb",
                            .wanted = "CUDA 12.2 or newer",
                            .next = "leave max_size_mb out, or rebuild with a newer toolkit"});
  }
}

std::unique_ptr<Backend> make_async(const AsyncConf& conf, const BackendOptions& options) {
  return std::make_unique<AsyncBackend>(conf, options.memory_limit_bytes);
}

}  // namespace

ConfResult<AsyncConf> read_async_conf(std::string_view text) { return async_format()(text); }

ConfKey<AsyncConf> release_threshold_key() {
  const auto read = [](ConfReader& reader, const ConfPair& pair, AsyncConf& conf) {
    std::optional<ErrorText> error;
    const std::uint64_t megabytes =
        pair.value == "max" ? 0 : ConfReader(error).number(pair, {.highest = kMegabytesMax});
    if (error) reader.fail(pair, "a whole number of MiB, or max (never give memory back)");
    conf.release_threshold_bytes = pair.value == "max" ? UINT64_MAX : megabytes * kMiB;
  };
  return {"release_threshold_mb", read};
}

AsyncBackend::AsyncBackend(const AsyncConf& conf, std::uint64_t memory_limit_bytes)
    : memory_limit_bytes_(memory_limit_bytes) {
  int device = 0;
  ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device));
  try {
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    open_pool(conf, device);
    set_attributes(conf);
  } catch (...) {
    close();
    throw;
  }
}

AsyncBackend::~AsyncBackend() { close(); }

void AsyncBackend::open_pool(const AsyncConf& conf, int device) {
  int supported = 0;
  ALLOCMARK_CUDA_CHECK(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, device));
  if (supported == 0) {
    throw EnvironmentError({.what = "this device has no stream-ordered memory pools",
                            .where = "async backend",
                            .wanted = "cudaDevAttrMemoryPoolsSupported = 1",
                            .got = "0",
                            .next = "use another allocator"});
  }
  if (!conf.own_pool) {
    ALLOCMARK_CUDA_CHECK(cudaDeviceGetDefaultMemPool(&pool_, device));
    return;
  }
  make_pool(conf, device);
}

void AsyncBackend::make_pool(const AsyncConf& conf, int device) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
#if CUDART_VERSION >= 13000
  if (conf.on_host) properties.location = {.type = cudaMemLocationTypeHost, .id = 0};
#endif
  set_max_size(properties, conf.max_size_bytes);
  ALLOCMARK_CUDA_CHECK(cudaMemPoolCreate(&pool_, &properties));
  own_pool_ = true;
  if (!conf.on_host) return;
  // At first only the host may use the memory.
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolSetAccess(pool_, &access, 1));
}

void AsyncBackend::set_attributes(const AsyncConf& conf) {
  if (conf.release_threshold_bytes) {
    set_threshold(*conf.release_threshold_bytes);
  }
  set_reuse(cudaMemPoolReuseFollowEventDependencies, conf.reuse_follow_event_dependencies);
  set_reuse(cudaMemPoolReuseAllowOpportunistic, conf.reuse_allow_opportunistic);
  set_reuse(cudaMemPoolReuseAllowInternalDependencies, conf.reuse_allow_internal_dependencies);
}

void AsyncBackend::set_threshold(std::uint64_t threshold_bytes) {
  saved_.push_back({.attribute = cudaMemPoolAttrReleaseThreshold,
                    .value = pool_bytes(cudaMemPoolAttrReleaseThreshold)});
  ALLOCMARK_CUDA_CHECK(
      cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold_bytes));
}

void AsyncBackend::set_reuse(cudaMemPoolAttr attribute, std::optional<bool> allowed) {
  if (!allowed) {
    return;
  }
  int before = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, attribute, &before));
  saved_.push_back({.attribute = attribute, .value = static_cast<std::uint64_t>(before)});
  int wanted = *allowed ? 1 : 0;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolSetAttribute(pool_, attribute, &wanted));
}

// Errors are passed over: a destructor can do nothing about a lost context, and its memory is gone
// with it.
void AsyncBackend::close() noexcept {
  if (pool_ != nullptr) {
    (void)cudaDeviceSynchronize();
    live_.for_each([](const LiveBlock& block) { (void)cudaFreeAsync(block.pointer, nullptr); });
    (void)cudaDeviceSynchronize();
    (void)cudaMemPoolTrimTo(pool_, 0);
    if (own_pool_) {
      (void)cudaMemPoolDestroy(pool_);
    } else {
      for (SavedAttribute& saved : saved_) {
        int flag = static_cast<int>(saved.value);
        const bool is_bytes = saved.attribute == cudaMemPoolAttrReleaseThreshold;
        (void)cudaMemPoolSetAttribute(
            pool_, saved.attribute,
            is_bytes ? static_cast<void*>(&saved.value) : static_cast<void*>(&flag));
      }
    }
  }
  if (event_ != nullptr) {
    (void)cudaEventDestroy(event_);
  }
  (void)cudaGetLastError();
}

AllocateResult AsyncBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  if (size_bytes == 0) {
    return {};  // as cudaMallocAsync(0): success and a null pointer
  }
  const std::scoped_lock lock(mutex_);
  const std::uint64_t used_bytes = live_.size_bytes_total();
  if (memory_limit_bytes_ != 0 &&
      (used_bytes > memory_limit_bytes_ || size_bytes > memory_limit_bytes_ - used_bytes)) {
    return kOutOfMemory;
  }
  live_.reserve_one();
  void* pointer = nullptr;
  const cudaError_t error = own_pool_ ? cudaMallocFromPoolAsync(&pointer, size_bytes, pool_, stream)
                                      : cudaMallocAsync(&pointer, size_bytes, stream);
  if (is_out_of_memory(error)) {
    return kOutOfMemory;
  }
  ALLOCMARK_CUDA_CHECK(error);
  live_.insert({.pointer = pointer, .size_bytes = size_bytes});
  return {.pointer = pointer, .status = AllocateStatus::Ok};
}

void AsyncBackend::deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t stream) {
  if (pointer == nullptr) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  for (const cudaStream_t other : uses_.take(pointer)) {
    ALLOCMARK_CUDA_CHECK(cudaEventRecord(event_, other));
    ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  ALLOCMARK_CUDA_CHECK(cudaFreeAsync(pointer, stream));
  (void)live_.erase(pointer);
}

void AsyncBackend::record_stream(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  uses_.add(pointer, stream);
}

void AsyncBackend::trim() {
  const std::scoped_lock lock(mutex_);
  ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  ALLOCMARK_CUDA_CHECK(cudaMemPoolTrimTo(pool_, 0));
}

std::uint64_t AsyncBackend::pool_bytes(cudaMemPoolAttr attribute) const {
  std::uint64_t value = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemPoolGetAttribute(pool_, attribute, &value));
  return value;
}

MemoryStats AsyncBackend::stats(cudaStream_t /*stream*/) const {
  const std::scoped_lock lock(mutex_);
  // Which free memory waits for which stream, and how often the pool went to the driver, the pool
  // does not say.
  return {.allocated_bytes = live_.size_bytes_total(),
          .reserved_bytes = pool_bytes(cudaMemPoolAttrReservedMemCurrent)};
}

std::vector<NamedCounter> AsyncBackend::counters() const {
  struct Row {
    const char* name;
    cudaMemPoolAttr attribute;
  };
  constexpr Row kRows[] = {{"reserved_mem_current", cudaMemPoolAttrReservedMemCurrent},
                           {"reserved_mem_high", cudaMemPoolAttrReservedMemHigh},
                           {"used_mem_current", cudaMemPoolAttrUsedMemCurrent},
                           {"used_mem_high", cudaMemPoolAttrUsedMemHigh}};
  const std::scoped_lock lock(mutex_);
  std::vector<NamedCounter> result;
  for (const Row& row : kRows) {
    result.push_back(named_counter(row.name, pool_bytes(row.attribute)));
  }
  return result;
}

BackendEntry async_entry() {
  return {
      .name = "async",
      .summary = "cudaMallocAsync: CUDA's stream-ordered pools",
      .capabilities = {.any_thread = true, .stream_ordered = true, .honours_memory_limit = true},
      .conf_keys = async_format().key_names(),
      .check_conf = conf_checker(read_async_conf),
      .make = conf_maker(read_async_conf, make_async)};
}

}  // namespace allocmark

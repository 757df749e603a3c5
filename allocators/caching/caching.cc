#include "allocators/caching/caching.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "allocators/caching/config.h"
#include "allocators/cuda/streams.h"
#include "base/error.h"

namespace allocmark {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

std::uint64_t bytes_of(const caching::Stat& stat) {
  return static_cast<std::uint64_t>(stat.current());
}

[[noreturn]] void throw_invalid_pointer(const void* pointer) {
  throw EnvironmentError(
      {.what = fmt::format("invalid device pointer: {}", pointer),
       .where = "caching backend",
       .wanted = "a pointer that allocate returned and that was not given back since"});
}

// What other pools have than the one that the stream's requests go to is as far away as another
// stream's.
void fill_cached(MemoryStats& stats, const caching::CachingAllocator& allocator,
                 caching::Stream stream) {
  std::uint64_t other_bytes = 0;
  std::uint64_t largest_bytes = 0;
  const caching::PrivatePool* owner = allocator.routed_owner(stream);
  allocator.heap().for_each_pool([&](const caching::Pool& pool) {
    for (const caching::Block* block : pool.free_blocks()) {
      if (block->home->stream == stream && pool.owner == owner) {
        largest_bytes = std::max(largest_bytes, block->size_bytes);
      } else {
        other_bytes += block->size_bytes;
      }
    }
  });
  stats.free_other_streams_bytes = other_bytes;
  stats.free_largest_bytes = largest_bytes;
}

// The driver's pool has no private ones beside it.
BackendCapabilities capabilities_with(std::string_view conf) {
  const bool is_native = conf.find("cudaMallocAsync") == std::string_view::npos;
  return {.any_thread = true,
          .stream_ordered = true,
          .honours_memory_limit = true,
          .private_pools = is_native};
}

MemoryBlockState state_of(caching::BlockState state) {
  switch (state) {
    case caching::BlockState::ActiveAllocated:
      return MemoryBlockState::Allocated;
    case caching::BlockState::ActivePendingFree:
      return MemoryBlockState::Waiting;
    case caching::BlockState::Inactive:
      return MemoryBlockState::Free;
  }
  return MemoryBlockState::Free;
}

}  // namespace

CachingBackend::CachingBackend(const caching::Settings& settings, std::uint64_t memory_limit_bytes,
                               caching::Driver* device)
    : driver_(device != nullptr
                  ? *device
                  : own_driver_.emplace(settings.release_lock_on_cudamalloc ? &mutex_ : nullptr)) {
  // PyTorch's allocators are made under the same lock, which cudaMalloc may release.
  const std::lock_guard lock(mutex_);
  if (settings.backend == caching::PoolBackend::CudaMallocAsync) {
    async_ =
        std::make_unique<caching::AsyncAllocator>(driver_, memory_limit_bytes, *settings.rules);
  } else {
    native_ = std::make_unique<caching::CachingAllocator>(driver_, settings, memory_limit_bytes);
  }
}

AllocateResult CachingBackend::allocate(std::uint64_t size_bytes, cudaStream_t stream) {
  if (size_bytes == 0) return {};
  // PyTorch refuses tensors of 1 EiB and more before its allocator, whose rounding would wrap.
  constexpr std::uint64_t kTensorBytesEnd = std::uint64_t{1} << 60;
  if (size_bytes >= kTensorBytesEnd) return kOutOfMemory;
  const std::lock_guard lock(mutex_);
  if (native_) return result_at(native_->allocate(size_bytes, number_of(stream)));
  return result_at(async_->allocate(size_bytes, number_of(stream)));
}

void CachingBackend::deallocate(void* pointer, std::uint64_t /*size_bytes*/,
                                cudaStream_t /*stream*/) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const bool known =
      native_ ? native_->deallocate(address_of(pointer)) : async_->deallocate(address_of(pointer));
  if (!known) throw_invalid_pointer(pointer);
}

void CachingBackend::record_stream(void* pointer, cudaStream_t stream) {
  if (pointer == nullptr) return;
  const std::lock_guard lock(mutex_);
  const bool known = native_ ? native_->record_stream(address_of(pointer), number_of(stream))
                             : async_->record_stream(address_of(pointer), number_of(stream));
  if (!known) throw_invalid_pointer(pointer);
}

void CachingBackend::trim() {
  const std::lock_guard lock(mutex_);
  if (native_) {
    native_->empty_cache();
  } else {
    async_->empty_cache();
  }
}

void caching::call_pool(CachingAllocator& allocator, PoolAction action, std::uint64_t pool,
                        Stream stream, bool flag) {
  switch (action) {
    case PoolAction::Create:
      return allocator.use_pool(pool);
    case PoolAction::Begin:
      return allocator.begin_pool(pool, flag ? std::nullopt : std::optional(stream));
    case PoolAction::End:
      return allocator.end_pool(pool);
    case PoolAction::Release:
      return allocator.release_pool(pool);
    case PoolAction::UseOnOom:
      return allocator.use_pool_on_oom(pool, flag);
    case PoolAction::NoSplit:
      return allocator.never_split_pool(pool);
    case PoolAction::Trim:
      return allocator.empty_pool(pool);
    case PoolAction::CaptureBegin:
      return allocator.begin_capture(stream);
    case PoolAction::CaptureEnd:
      return allocator.end_capture(stream);
  }
}

void CachingBackend::call_pool(const PoolCall& call) {
  const std::lock_guard lock(mutex_);
  if (native_)
    caching::call_pool(*native_, call.action, call.pool, number_of(call.stream), call.flag);
}

MemoryStats CachingBackend::stats(cudaStream_t stream) const {
  MemoryStats stats = totals();
  const std::lock_guard lock(mutex_);
  if (native_) fill_cached(stats, *native_, number_of(stream));
  return stats;
}

MemoryStats CachingBackend::totals() const {
  const std::lock_guard lock(mutex_);
  const caching::Counters& counters = native_ ? native_->counters() : async_->counters();
  MemoryStats stats;
  stats.allocated_bytes = bytes_of(counters.allocated_bytes.all());
  stats.active_bytes = bytes_of(counters.active_bytes.all());
  stats.reserved_bytes = bytes_of(counters.reserved_bytes.all());
  if (native_) stats.limit_bytes = native_->limit_bytes();
  if (async_ && async_->limit_bytes() > 0) stats.limit_bytes = async_->limit_bytes();
  if (!native_) return stats;
  stats.device_allocate_count = static_cast<std::uint64_t>(counters.num_device_alloc);
  stats.device_free_count = static_cast<std::uint64_t>(counters.num_device_free);
  stats.retry_count = static_cast<std::uint64_t>(counters.num_alloc_retries);
  stats.synchronize_all_count = static_cast<std::uint64_t>(counters.num_sync_all_streams);
  return stats;
}

std::vector<NamedCounter> CachingBackend::counters() const {
  const std::lock_guard lock(mutex_);
  std::vector<NamedCounter> named;
  for (auto& [name, value] : caching::flatten(native_ ? native_->counters() : async_->counters())) {
    named.push_back({std::move(name), value});
  }
  return named;
}

std::string CachingBackend::change_settings(const std::string& conf) {
  const std::lock_guard lock(mutex_);
  if (!native_) return {};
  caching::Settings settings = native_->settings();
  std::string error = caching::change_like_pytorch(settings, conf);
  native_->change_settings(settings);
  return error;
}

void CachingBackend::change_limit(std::uint64_t memory_limit_bytes) {
  const std::lock_guard lock(mutex_);
  if (native_) {
    native_->change_limit(memory_limit_bytes > 0 ? std::optional(memory_limit_bytes)
                                                 : std::nullopt);
  } else {
    async_->change_limit(memory_limit_bytes);
  }
}

std::string CachingBackend::last_failure_text() const {
  const std::lock_guard lock(mutex_);
  if (native_)
    return native_->last_failure() ? out_of_memory_message(*native_->last_failure()) : "";
  return async_->last_failure() ? out_of_memory_message(*async_->last_failure()) : "";
}

std::uint64_t CachingBackend::split_release_count() const {
  const std::lock_guard lock(mutex_);
  return native_ ? native_->heap().split_release_count : 0;
}

std::uint64_t CachingBackend::pool_count_error_count() const {
  const std::lock_guard lock(mutex_);
  return native_ ? native_->heap().pool_count_error_count : 0;
}

std::vector<caching::SegmentInfo> CachingBackend::snapshot() const {
  const std::lock_guard lock(mutex_);
  if (!native_) return {};
  return caching::take_snapshot(*native_);
}

std::vector<MemorySegment> CachingBackend::segments() const {
  std::vector<MemorySegment> segments;
  for (const caching::SegmentInfo& info : snapshot()) {
    MemorySegment& segment =
        segments.emplace_back(MemorySegment{.address = info.address,
                                            .size_bytes = info.total_bytes,
                                            .is_large = info.kind == caching::PoolKind::Large,
                                            .is_expandable = info.expandable});
    segment.stream = static_cast<std::uint64_t>(info.stream);
    segment.pool = info.pool;
    segment.allocated_bytes = info.allocated_bytes;
    for (const caching::BlockInfo& block : info.blocks) {
      segment.blocks.push_back({.address = block.address,
                                .size_bytes = block.size_bytes,
                                .state = state_of(block.state)});
    }
  }
  return segments;
}

BackendEntry caching_entry(const caching::Rules& rules, std::string name) {
  return {.name = std::move(name),
          .summary = fmt::format(
              "PyTorch {}'s caching allocator, with PYTORCH_CUDA_ALLOC_CONF as config string",
              rules.name()),
          .capabilities = capabilities_with({}),
          .release = rules.name(),
          .conf_keys = caching::config_key_names(rules),
          .check_conf =
              [&rules](std::string_view conf) { return caching::parse_strict(conf, rules).error; },
          .make = [&rules](const BackendOptions& options) -> std::unique_ptr<Backend> {
            const caching::StrictConfig config = caching::parse_strict(options.conf, rules);
            if (config.error) throw UsageError(*config.error);
            return std::make_unique<CachingBackend>(config.settings, options.memory_limit_bytes,
                                                    options.device);
          },
          .capabilities_with = capabilities_with};
}

BackendEntry caching_entry() { return caching_entry(caching::newest_rules(), "caching"); }

std::vector<BackendEntry> caching_releases() {
  std::vector<BackendEntry> entries;
  for (const caching::Rules& rules : caching::all_rules())
    entries.push_back(caching_entry(rules, rules.allocator()));
  return entries;
}

}  // namespace allocmark

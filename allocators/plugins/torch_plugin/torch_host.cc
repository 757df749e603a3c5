// PyTorch's cache of pinned host memory behind the interface of host_plugin.h.
#if __has_include(<ATen/core/CachingHostAllocator.h>)
#include "allocators/plugins/torch_plugin/host_cache.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <stdexcept>

#include "allocators/plugins/torch_plugin/counters.h"
#include "allocators/plugins/torch_plugin/guarded.h"

namespace {

using allocmark_torch::add_stat;
using allocmark_torch::Counters;
using allocmark_torch::guarded;
using allocmark_torch::HostCacheImpl;
using allocmark_torch::HostStream;

// As long as the process: its end is libtorch's too, which gives nothing back.
HostCacheImpl* cache = nullptr;
std::unordered_map<std::uint64_t, void*> live_blocks;  // of allocate(), by address

int open_host(const AllocmarkHostMachine* machine) {
  return guarded([&] {
    allocmark_torch::require_own_library();
    if (cache != nullptr) throw std::runtime_error("the cache of pinned memory is open already");
    cache = new HostCacheImpl(*machine);
  });
}

int configure(const char* conf) {
  return guarded([&] { c10::cuda::CUDACachingAllocator::setAllocatorSettings(conf); });
}

int allocate(std::uint64_t size_bytes, std::uint64_t* address, std::uint64_t* block_bytes) {
  *address = *block_bytes = 0;
  return guarded([&] {
    const auto [pointer, block] = cache->allocate(size_bytes);
    if (pointer == nullptr) return;
    *address = HostCacheImpl::number(pointer);
    *block_bytes = static_cast<HostCacheImpl::Block*>(block)->size_;
    live_blocks[*address] = block;
  });
}

int use(std::uint64_t address, std::uint64_t stream, int* known) {
  return guarded([&] {
    const auto found = live_blocks.find(address);
    void* const block = found == live_blocks.end() ? nullptr : found->second;
    *known = cache->record_event(reinterpret_cast<void*>(address), block, HostStream(stream));
  });
}

int deallocate(std::uint64_t address) {
  return guarded([&] {
    void* const block = live_blocks.at(address);
    live_blocks.erase(address);
    cache->free(block);
  });
}

int empty_cache() {
  return guarded([] { cache->empty_cache(); });
}
int background_pass() {
  return guarded([] { cache->background_pass(); });
}

// Before 2.11 a capture has no pool.
template <typename Cache>
void begin_capture_of(Cache& one, std::uint64_t id) {
  if constexpr (requires { one.release_pool(c10::MempoolId_t{}); }) {
    one.begin_allocate_to_pool(c10::MempoolId_t{0, id}, [](c10::Stream) { return true; });
    one.set_capturing(true);
  } else {
    throw std::runtime_error("PyTorch " ALLOCMARK_TORCH_VERSION " pins no memory for graphs");
  }
}
template <typename Cache>
void end_capture_of(Cache& one, std::uint64_t id) {
  if constexpr (requires { one.release_pool(c10::MempoolId_t{}); }) {
    one.set_capturing(false);
    one.end_allocate_to_pool(c10::MempoolId_t{0, id});
  }
}
template <typename Cache>
void release_pool_of(Cache& one, std::uint64_t id) {
  if constexpr (requires { one.release_pool(c10::MempoolId_t{}); })
    one.release_pool(c10::MempoolId_t{0, id});
}

int begin_capture(std::uint64_t id) {
  return guarded([&] { begin_capture_of(*cache, id); });
}
int end_capture(std::uint64_t id) {
  return guarded([&] { end_capture_of(*cache, id); });
}
int release_pool(std::uint64_t id) {
  return guarded([&] { release_pool_of(*cache, id); });
}

int reset_peak() {
  return guarded([] { cache->resetPeakStats(); });
}
int reset_accumulated() {
  return guarded([] { cache->resetAccumulatedStats(); });
}

// The names that torch.cuda.host_memory_stats() gives them: 2.9's, and those since.
template <typename Stats>
void add_stats(Counters& counters, const Stats& stats) {
  if constexpr (requires { stats.segment; }) {
    add_stat(counters, "allocations", stats.allocation);
    add_stat(counters, "allocated_bytes", stats.allocated_bytes);
    add_stat(counters, "segments", stats.segment);
    add_stat(counters, "reserved_bytes", stats.reserved_bytes);
  } else {
    add_stat(counters, "active_requests", stats.active_requests);
    add_stat(counters, "active_bytes", stats.active_bytes);
    add_stat(counters, "allocations", stats.allocations);
    add_stat(counters, "allocated_bytes", stats.allocated_bytes);
  }
}

Counters read_counters() {
  const at::HostStats stats = cache->getStats();
  Counters counters;
  add_stats(counters, stats);
  counters.emplace_back("host_alloc_time.count", stats.host_alloc_time.count);
  counters.emplace_back("host_free_time.count", stats.host_free_time.count);
  counters.emplace_back("num_host_alloc", stats.num_host_alloc);
  counters.emplace_back("num_host_free", stats.num_host_free);
  std::sort(counters.begin(), counters.end());
  return counters;
}

const char* last_error() { return allocmark_torch::last_error_text.c_str(); }

constexpr AllocmarkTorchHostPlugin kHostPlugin = {
    .version = ALLOCMARK_TORCH_HOST_PLUGIN_VERSION,
    .open = open_host,
    .configure = configure,
    .allocate = allocate,
    .use = use,
    .deallocate = deallocate,
    .empty_cache = empty_cache,
    .background_pass = background_pass,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .release_pool = release_pool,
    .reset_peak = reset_peak,
    .reset_accumulated = reset_accumulated,
    .counter = allocmark_torch::counter<read_counters>,
    .last_error = last_error,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const AllocmarkTorchHostPlugin*
allocmark_torch_host_plugin(void) {
  return &kHostPlugin;
}
#endif

// The backends host_caching and host_caching@RELEASE: PyTorch's cache of pinned host memory on the
// CUDA runtime. Requests flow in, pinned memory flows out; ../host_caching decides.
#include <fmt/format.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "allocators/caching/config.h"
#include "allocators/caching/release.h"
#include "allocators/host_caching/host_cache.h"
#include "allocators/pinned/bounded_driver.h"
#include "allocators/pinned/pinned.h"
#include "base/error.h"

namespace allocmark {
namespace {

using host_caching::Address;

Address address_of(void* pointer) { return reinterpret_cast<Address>(pointer); }

class HostCachingBackend final : public Backend {
 public:
  HostCachingBackend(const caching::Settings& settings, std::uint64_t limit_bytes)
      : driver_(limit_bytes),
        cache_(driver_, settings),
        has_thread_(settings.pinned_use_background_threads) {}

  // The caller owns the block until deallocate(), on any thread. Blocks where memory is pinned.
  // With background threads, what PyTorch's thread does every 100 us is done before each request.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes,
                                        cudaStream_t /*stream*/) override {
    if (size_bytes == 0) return {};
    const std::scoped_lock lock(mutex_);
    if (has_thread_) cache_.background_pass();
    const host_caching::PinnedBlock block = cache_.allocate(size_bytes);
    if (block.address == 0) return kOutOfMemory;
    live_bytes_ += block.size_bytes;
    live_[block.address] = block.size_bytes;
    return {.pointer = reinterpret_cast<void*>(block.address), .status = AllocateStatus::Ok};
  }

  // Never blocks, but where pinned_max_cached_size_mb unpins. A stream is waited for only where
  // record_stream() named it.
  void deallocate(void* pointer, std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    const auto found = live_.find(address_of(pointer));
    if (found == live_.end()) {
      throw EnvironmentError({.what = fmt::format("invalid pointer: {}", pointer),
                              .where = "host_caching backend",
                              .wanted = "one that allocate returned and that lives"});
    }
    live_bytes_ -= found->second;
    live_.erase(found);
    cache_.deallocate(address_of(pointer));
  }

  void record_stream(void* pointer, cudaStream_t stream) override {
    if (pointer == nullptr) return;
    const std::scoped_lock lock(mutex_);
    (void)cache_.use(address_of(pointer), reinterpret_cast<host_caching::Stream>(stream));
  }

  void trim() override {
    const std::scoped_lock lock(mutex_);
    cache_.empty_cache();
  }

  [[nodiscard]] MemoryStats stats(cudaStream_t /*stream*/) const override {
    const std::scoped_lock lock(mutex_);
    return {.allocated_bytes = live_bytes_,
            .reserved_bytes = driver_.pinned_bytes(),
            .device_allocate_count = driver_.pin_count(),
            .device_free_count = driver_.unpin_count(),
            .retry_count = 0,
            .synchronize_all_count = 0};
  }

  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    const std::scoped_lock lock(mutex_);
    std::vector<NamedCounter> named;
    for (auto& [name, value] : cache_.statistics()) named.push_back({std::move(name), value});
    return named;
  }

 private:
  mutable std::mutex mutex_;  // guards everything below
  BoundedDriver driver_;
  host_caching::HostCache cache_;
  bool has_thread_;
  std::unordered_map<Address, std::uint64_t> live_{};  // bytes of blocks
  std::uint64_t live_bytes_ = 0;
};

std::vector<std::string> pinned_keys(const caching::Rules& rules) {
  std::vector<std::string> keys = caching::config_key_names(rules);
  std::erase_if(keys, [](const std::string& key) { return !key.starts_with("pinned_"); });
  return keys;
}

// Registered memory is the C library's, as in PyTorch.
BackendCapabilities capabilities_with(const caching::Settings& settings) {
  BackendCapabilities claims = {
      .any_thread = true, .side = MemorySide::Host, .honours_memory_limit = true};
  if (settings.pinned_use_cuda_host_register) claims.alignment_bytes = alignof(std::max_align_t);
  return claims;
}

BackendEntry entry_of(const caching::Rules& rules, std::string name) {
  return {.name = std::move(name),
          .summary = fmt::format("pinned host memory by PyTorch {}'s CachingHostAllocator, rebuilt",
                                 rules.name()),
          .capabilities = capabilities_with({}),
          .release = rules.name(),
          .conf_keys = pinned_keys(rules),
          .check_conf =
              [&rules](std::string_view conf) { return caching::parse_strict(conf, rules).error; },
          .make = [&rules](const BackendOptions& options) -> std::unique_ptr<Backend> {
            const caching::StrictConfig config = caching::parse_strict(options.conf, rules);
            if (config.error) throw UsageError(*config.error);
            return std::make_unique<HostCachingBackend>(config.settings,
                                                        options.memory_limit_bytes);
          },
          .capabilities_with =
              [&rules](std::string_view conf) {
                return capabilities_with(caching::parse_strict(conf, rules).settings);
              }};
}

}  // namespace

BackendEntry host_caching_entry() { return entry_of(caching::newest_rules(), "host_caching"); }

std::vector<BackendEntry> host_caching_releases() {
  std::vector<BackendEntry> entries;
  for (const caching::Rules& rules : caching::all_rules())
    entries.push_back(entry_of(rules, "host_caching@" + rules.name()));
  return entries;
}

}  // namespace allocmark

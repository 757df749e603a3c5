// PyTorch's own cache of pinned host memory, through the plugin of a release: the original beside
// HostCache, with the same functions and on the same kind of machine.
#pragma once

#include <cstdint>
#include <string>

#include "allocators/host_caching/host_cache.h"
#include "allocators/plugins/torch_plugin/host_plugin.h"

namespace allocmark {

// One per process, like TorchBackend. What PyTorch stops with is thrown as an EnvironmentError.
class TorchHostCache {
 public:
  // `version` as TorchBackend has it. The driver must outlive the process's use of the cache.
  TorchHostCache(const std::string& version, const std::string& conf,
                 host_caching::HostDriver& driver);

  // As HostCache has them (allocators/host_caching/host_cache.h).
  [[nodiscard]] host_caching::PinnedBlock allocate(std::uint64_t size_bytes);
  bool use(host_caching::Address address, host_caching::Stream stream);
  void deallocate(host_caching::Address address);
  void empty_cache();
  void background_pass();
  void begin_capture(std::uint64_t pool);
  void end_capture();
  void release_pool(std::uint64_t pool);
  [[nodiscard]] host_caching::HostStatistics statistics() const;
  void reset_peak();
  void reset_accumulated();

  // A change at run time: PyTorch's text where it refuses, else empty.
  [[nodiscard]] std::string change(const std::string& conf);

 private:
  void require_ok(int status) const;

  const AllocmarkTorchHostPlugin* plugin_;
  AllocmarkHostMachine machine_;
  std::uint64_t capturing_ = 0;
};

}  // namespace allocmark

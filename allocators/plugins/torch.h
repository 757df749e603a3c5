// The torch backend: PyTorch's own CUDA caching allocator (c10), through a plugin that is built
// where a PyTorch installation is given. The original beside `caching`, our rebuilding of it: same
// cell, two backends, no difference.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/plugins/torch_plugin/plugin.h"

namespace allocmark {

// c10 keeps one allocator per process, and reads its config string once: only one TorchBackend
// lives at a time, and all of a process have the same conf.
class TorchBackend final : public Backend {
 public:
  // `version` names one of the fetched releases; empty: the plugin that stands beside the program.
  explicit TorchBackend(const BackendOptions& options, const std::string& version = {});
  // Gives back what is live, empties the cache and zeroes the counters.
  ~TorchBackend() override;

  // The caller owns the block; it may be reused on `stream` without waiting. May block the host as
  // c10 does.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  void trim() override;
  // Throws EnvironmentError with c10's text where c10 stops with an error.
  void call_pool(const PoolCall& call) override;
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;
  [[nodiscard]] MemoryStats totals() const override;
  [[nodiscard]] std::vector<NamedCounter> counters() const override;
  [[nodiscard]] std::vector<MemorySegment> segments() const override;
  [[nodiscard]] std::string last_failure_text() const override { return plugin_->last_error(); }

  // As CachingBackend has them.
  [[nodiscard]] std::string change_settings(const std::string& conf);
  void change_limit(std::uint64_t memory_limit_bytes);

 private:
  void require_ok(int status, const char* call) const;

  const AllocmarkTorchPlugin* plugin_;
  std::string plugin_path_;
};

[[nodiscard]] BackendEntry torch_entry();
// torch@2.13.0 and so on: the releases that scripts/build/fetch_torch.sh has fetched.
[[nodiscard]] std::vector<BackendEntry> torch_releases();

// A table of functions that a plugin hands over.
struct TorchTable {
  const char* symbol = nullptr;  // of the function that gives it
  int version = 0;
};
// Loads the plugin of a release, as TorchBackend names it, and keeps it: a process holds one, with
// one config string. Throws EnvironmentError with the reason.
[[nodiscard]] const void* torch_plugin_table(const std::string& version, const std::string& conf,
                                             const TorchTable& wanted);

// Of the plugin behind `torch` (empty) or torch@VERSION: "2.13.0"; empty where there is none.
[[nodiscard]] std::string torch_version_of(const std::string& version);

}  // namespace allocmark

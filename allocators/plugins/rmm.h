// The rmm backend: the device memory resources of RAPIDS' RMM, through a plugin that is built where
// an RMM installation is given. Which resource and its sizes are in the config string; requests
// flow to it with their stream, as RMM's users pass them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <mutex>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/backend/stream_uses.h"
#include "allocators/conf/conf_value.h"
#include "allocators/plugins/rmm_plugin/plugin.h"

namespace allocmark {

// Config keys: resource (pool, arena, binning, fixed_size, cuda_async), initial_mb, max_mb,
// release_threshold_mb, block_kb, block_count, min_bin, max_bin (powers of two). Defaults are RMM's
// own; a pool, for which C++ has none, starts with half of the free memory, as in RMM's Python
// interface.
[[nodiscard]] ConfResult<AllocmarkRmmOptions> read_rmm_conf(std::string_view text);

class RmmBackend final : public Backend {
 public:
  // On the current device. Throws EnvironmentError where the plugin cannot be used.
  explicit RmmBackend(const AllocmarkRmmOptions& options);
  // Waits for the device and gives everything back.
  ~RmmBackend() override;

  // The caller owns the block, which is usable on `stream` at once. Blocks the host where the
  // resource asks cudaMalloc for more. All resources can be called from any thread.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  // RMM knows only the stream that is named here, so that stream is first made to wait for those
  // that record_stream named; the host does not wait.
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  void record_stream(void* pointer, cudaStream_t stream) override;
  // Only cuda_async gives memory back before it ends: the driver's pool is trimmed.
  void trim() override;

  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;

 private:
  void require_ok(int status, const char* call) const;
  void wait_for(cudaStream_t other, cudaStream_t stream) const;

  const AllocmarkRmmPlugin* plugin_;
  void* instance_ = nullptr;
  mutable std::mutex mutex_;  // guards what follows, never held while RMM runs
  LiveSet live_;
  StreamUses uses_;
};

[[nodiscard]] BackendEntry rmm_entry();

}  // namespace allocmark

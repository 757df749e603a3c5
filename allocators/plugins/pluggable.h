// The pluggable backend: any allocator with the interface of PyTorch's CUDAPluggableAllocator, in a
// shared library named by the config string. Requests flow to its two functions as PyTorch would
// pass them on; what they answer flows back unjudged, for the checking pass to judge.
#pragma once

#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "allocators/backend/backend.h"
#include "allocators/backend/live_set.h"
#include "allocators/conf/conf_value.h"
#include "base/error.h"

namespace allocmark {

// Config keys, with PyTorch's documented example names as defaults.
struct PluggableConf {
  std::string library;                      // path of the shared library
  std::string malloc_symbol = "my_malloc";  // void* (ssize_t size, int device, cudaStream_t)
  std::string free_symbol = "my_free";      // void (void*, ssize_t size, int device, cudaStream_t)
  std::string record_stream_symbol;         // void (void*, cudaStream_t); empty = none
  std::string trim_symbol;                  // void (void), gives cached memory back; empty = none
  std::string init_symbol;                  // void (int device_count), called first; empty = none
  std::string name;  // "as": what results call it, whatever its path; empty = the config string
};

// Reads the string; the library itself is not looked at.
[[nodiscard]] ConfResult<PluggableConf> read_pluggable_conf(std::string_view text);

// The library is, or is served by another file (not empty) that is, linked with the static CUDA
// runtime.
[[nodiscard]] ErrorText foreign_runtime_error(const std::string& library,
                                              const std::string& carrier);
// Why the library cannot be used on a simulated device; nothing where it can.
[[nodiscard]] std::optional<ErrorText> simulated_plugin_error(const PluggableConf& conf);

class PluggableBackend final : public Backend {
 public:
  // Loads the library, which stays loaded until the process ends: it may have threads and caches of
  // its own. Throws EnvironmentError where it does not load or lacks a function.
  explicit PluggableBackend(const PluggableConf& conf);
  // Waits for the device, gives what is live back to the library, and trims.
  ~PluggableBackend() override;

  // A null pointer from the library is "out of memory". The library may block the host as it likes.
  // Size 0 does not reach it. Safe on any thread if the library is, as PyTorch demands.
  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override;
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override;
  // Nothing happens where the library has no such function: with PyTorch neither.
  void record_stream(void* pointer, cudaStream_t stream) override;
  void trim() override;

  // allocated_bytes are the live requests. What the library has taken from the device it cannot
  // say; the simulated runtime can, but not of a cache that an earlier instance left.
  [[nodiscard]] MemoryStats stats(cudaStream_t stream) const override;

 private:
  using Malloc = void* (*)(ssize_t size_bytes, int device, cudaStream_t stream);
  using Free = void (*)(void* pointer, ssize_t size_bytes, int device, cudaStream_t stream);
  using RecordStream = void (*)(void* pointer, cudaStream_t stream);
  using Trim = void (*)();

  void require_our_runtime() const;
  void call_init_once(const std::string& symbol, void* library);

  Malloc malloc_ = nullptr;
  Free free_ = nullptr;
  RecordStream record_stream_ = nullptr;
  Trim trim_ = nullptr;
  std::string library_;
  int device_ = 0;
  std::uint64_t (*device_used_bytes_)() = nullptr;  // null on a GPU
  std::uint64_t used_bytes_before_ = 0;             // when this instance was made
  std::atomic<bool> has_answered_ = false;  // the library has handed out memory at least once

  mutable std::mutex mutex_;  // guards what follows, never held while the library runs
  LiveSet live_;
};

[[nodiscard]] BackendEntry pluggable_entry();

}  // namespace allocmark

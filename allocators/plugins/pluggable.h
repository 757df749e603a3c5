// The pluggable backend: any allocator with the interface of PyTorch's CUDAPluggableAllocator, in a
// shared library named by the config string. Requests flow to its two functions as PyTorch would
// pass them on; what they answer flows back unjudged, for the checking pass to judge.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "allocators/backend/backend.h"
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

[[nodiscard]] BackendEntry pluggable_entry();

}  // namespace allocmark

// Programs' requests as calls of the CUDA driver, with questions about every block. In: sizes,
// addresses and streams. Out: addresses, and the driver's answers as text. Where the runtime
// answers the same question otherwise, the program is broken: both are one device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace allocmark::simcheck {

// What a setting's allocator is called, and its config strings: how memory is asked for.
inline constexpr const char* kDriverAllocator = "driver";

class DriverCalls {
 public:
  virtual ~DriverCalls() = default;

  // Nothing where memory is out; 0 for 0 bytes. Throws EnvironmentError where the driver fails
  // otherwise.
  [[nodiscard]] virtual std::optional<std::uint64_t> allocate(std::uint64_t size_bytes,
                                                              cudaStream_t stream) = 0;
  // What the driver says of the block, and whether bytes that it wrote come back.
  [[nodiscard]] virtual std::string questions(std::uint64_t address, std::uint64_t size_bytes) = 0;
  // Results of the free, and of a second one.
  [[nodiscard]] virtual std::string deallocate(std::uint64_t address, cudaStream_t stream) = 0;
  [[nodiscard]] virtual std::string trim() = 0;
};

// `kind`: "malloc", "pool" or "map". Throws UsageError for others, EnvironmentError where the
// driver lacks a function.
[[nodiscard]] std::unique_ptr<DriverCalls> make_driver_calls(const std::string& kind);

}  // namespace allocmark::simcheck

// Device memory by addresses, for the backends whose heap knows neither pointers nor CUDA: what
// they take from the device, give back to it, and refuse.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/error.h"

namespace allocmark {

// A request above it is out of memory: near 2^64 rounding would wrap.
inline constexpr std::uint64_t kDeviceRequestBytesMax = kTiB * 256;

// A share of what is free, in whole pages: a device gives no others, so that it would refuse a
// region of the whole limit. XLA rounds up, because there the memory of the card is more than that.
[[nodiscard]] inline std::uint64_t share_of_free_memory(double fraction) {
  constexpr std::uint64_t kPageBytes = 2 * kMiB;
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  const auto share_bytes = static_cast<std::uint64_t>(fraction * static_cast<double>(free_bytes));
  return share_bytes / kPageBytes * kPageBytes;
}

// Of cudaMalloc; nothing where the device has no more. Throws EnvironmentError on other failures.
[[nodiscard]] inline std::optional<std::uint64_t> take_device_memory(std::uint64_t size_bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size_bytes);
  if (is_out_of_memory(error)) return std::nullopt;
  ALLOCMARK_CUDA_CHECK(error);
  return reinterpret_cast<std::uint64_t>(memory);
}

// Never throws: destructors of heaps call it, and some half-way through giving memory back.
inline void give_device_memory(std::uint64_t address) noexcept {
  (void)cudaFree(reinterpret_cast<void*>(address));
  (void)cudaGetLastError();
}

// What deallocate says of a pointer that is none of a live block. `backend` as "cupy backend".
[[noreturn]] inline void throw_invalid_pointer(const char* backend) {
  throw EnvironmentError({.what = "invalid device pointer",
                          .where = backend,
                          .wanted = "a pointer that allocate returned, given back once"});
}

}  // namespace allocmark

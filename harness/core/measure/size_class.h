// The size classes by which latencies are kept apart. Bounds follow where allocators change their
// ways: PyTorch's 512 B rounding, cudaMalloc's slabs, PyTorch's 1 MiB small pool and 10 MiB large
// pool, and round steps above.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace allocmark {

inline constexpr std::uint32_t kSizeClassCount = 8;

inline constexpr std::array<std::string_view, kSizeClassCount> kSizeClassNames = {
    "<=512B", "<=4KiB", "<=64KiB", "<=1MiB", "<10MiB", "<=64MiB", "<=512MiB", ">512MiB"};

// Index into kSizeClassNames.
[[nodiscard]] constexpr std::uint32_t size_class_of(std::uint64_t size_bytes) {
  // The largest size of each class but the last; 10 MiB itself belongs to the class above it, as in
  // PyTorch.
  constexpr std::array<std::uint64_t, kSizeClassCount - 1> kSizeBytesMax = {
      512, 4 * kKiB, 64 * kKiB, kMiB, 10 * kMiB - 1, 64 * kMiB, 512 * kMiB};
  std::uint32_t index = 0;
  while (index < kSizeBytesMax.size() && size_bytes > kSizeBytesMax[index]) ++index;
  return index;
}

}  // namespace allocmark

// Bytes of the tables that PyTorch's kernels get which split and join many tensors: blocks of 2048
// bytes (128 threads of 16 bytes), 8 bytes per entry (ATen/native/cuda/TensorShape.cu).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/divided_up.h"

namespace allocmark {

inline constexpr std::uint64_t kCopyBlockBytes = 2048;
// Two waves of 132 multiprocessors.
inline constexpr std::uint64_t kCopyBlocksMax = 132 * 2048 / 128 * 2;

[[nodiscard]] inline std::uint64_t copy_block_count(const std::vector<std::uint64_t>& sizes,
                                                    std::uint64_t block_bytes) {
  std::uint64_t blocks = 0;
  for (const std::uint64_t size_bytes : sizes) blocks += divided_up(size_bytes, block_bytes);
  return blocks;
}

// Of split_with_sizes_copy: `sizes` are one rank's parts.
[[nodiscard]] inline std::uint64_t split_table_bytes(const std::vector<std::uint64_t>& sizes,
                                                     std::uint64_t ranks) {
  const std::uint64_t factor =
      divided_up(copy_block_count(sizes, kCopyBlockBytes) * ranks, kCopyBlocksMax);
  std::uint64_t chunks = 1;
  while (chunks * chunks < factor) ++chunks;
  const std::uint64_t repeats =
      std::max<std::uint64_t>(divided_up(factor, std::min(chunks, ranks)), 1);
  const std::uint64_t blocks = copy_block_count(sizes, kCopyBlockBytes * repeats);
  return (4 * sizes.size() + 1 + blocks) * 8;
}

// Of _chunk_cat.
[[nodiscard]] inline std::uint64_t join_table_bytes(const std::vector<std::uint64_t>& sizes) {
  return (6 * sizes.size() + 2 + copy_block_count(sizes, kCopyBlockBytes)) * 8;
}

}  // namespace allocmark

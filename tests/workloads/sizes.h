// What tests ask of the sizes that a workload asks for: how many are equal, and a fingerprint.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace allocmark {

inline std::uint64_t count_of(const std::vector<std::uint64_t>& sizes, std::uint64_t size_bytes) {
  return static_cast<std::uint64_t>(std::count(sizes.begin(), sizes.end(), size_bytes));
}

// Sizes in order, folded as trace_hash.h folds words.
inline std::uint64_t fingerprint(const std::vector<std::uint64_t>& sizes) {
  std::uint64_t value = 0xCBF29CE484222325u;
  for (const std::uint64_t size_bytes : sizes) {
    value = (value ^ size_bytes) * 0x9E3779B97F4A7C15u;
    value ^= value >> 32;
  }
  return value;
}

// The last `count` sizes of at least 1 KiB, of steps that come after a model was made.
inline std::vector<std::uint64_t> last_large(std::vector<std::uint64_t> sizes, std::size_t count) {
  std::erase_if(sizes, [](std::uint64_t size_bytes) { return size_bytes < 1024; });
  sizes.erase(sizes.begin(),
              sizes.end() - static_cast<std::ptrdiff_t>(std::min(count, sizes.size())));
  return sizes;
}

}  // namespace allocmark

// FNV-1a over eight bytes at a time.
#include "base/file_hash.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

namespace allocmark {

std::string hash_of_file(const std::string& path, const InputKind& kind) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  std::uint64_t size_bytes = 0;
  InputFile file(path, kind);
  std::array<char, 1 << 16> block{};
  while (const std::size_t count = file.read(block)) {
    std::fill(block.begin() + static_cast<std::ptrdiff_t>(count), block.end(), '\0');
    for (std::size_t at = 0; at < count; at += sizeof(std::uint64_t)) {
      std::uint64_t word = 0;
      std::memcpy(&word, block.data() + at, sizeof word);
      hash = (hash ^ word) * 0x100000001B3U;
      hash ^= hash >> 29;
    }
    size_bytes += count;
  }
  return size_bytes > 0 ? fmt::format("{:016x}", hash ^ size_bytes) : "";
}

}  // namespace allocmark

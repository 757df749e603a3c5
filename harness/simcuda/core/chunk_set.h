// A set of chunk numbers of one pool's address range, as bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace simcuda {

// Chunk numbers [first, last).
struct ChunkSpan {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  [[nodiscard]] bool empty() const { return first >= last; }
  [[nodiscard]] std::uint64_t count() const { return empty() ? 0 : last - first; }
};

class ChunkSet {
 public:
  explicit ChunkSet(std::uint64_t chunk_count);

  [[nodiscard]] bool contains(std::uint64_t chunk) const;
  void insert(std::uint64_t chunk);
  void erase(std::uint64_t chunk);
  void erase(ChunkSpan span);
  // How many of the span are in the set.
  [[nodiscard]] std::uint64_t count_in(ChunkSpan span) const;
  // The greatest one of the span.
  [[nodiscard]] std::optional<std::uint64_t> last_in(ChunkSpan span) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
  std::vector<std::uint64_t> words_;
};

}  // namespace simcuda

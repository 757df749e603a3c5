// The sizes that the driver's memory management counts in. All are powers of two.
#pragma once

#include <cstdint>
#include <iterator>

namespace simcuda {

inline constexpr std::uint64_t kUnitBytes = 512;  // small requests, pool requests
inline constexpr std::uint64_t kPageBytes = std::uint64_t{2}
                                            << 20;  // physical page, slab, VMM granularity
inline constexpr std::uint64_t kChunkBytes = std::uint64_t{32}
                                             << 20;  // address ranges, pool chunks
inline constexpr std::uint64_t kPagesPerChunk = kChunkBytes / kPageBytes;

// Both need a power of two; round_up needs size_bytes + unit_bytes to stay below 2^64.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t size_bytes, std::uint64_t unit_bytes) {
  return (size_bytes + unit_bytes - 1) & ~(unit_bytes - 1);
}
[[nodiscard]] constexpr std::uint64_t round_down(std::uint64_t size_bytes,
                                                 std::uint64_t unit_bytes) {
  return size_bytes & ~(unit_bytes - 1);
}

// Half-open range of addresses or offsets.
struct Range {
  std::uint64_t lo = 0;
  std::uint64_t hi = 0;
  [[nodiscard]] constexpr std::uint64_t size_bytes() const { return hi - lo; }
  [[nodiscard]] constexpr bool empty() const { return lo >= hi; }
  [[nodiscard]] constexpr bool holds(std::uint64_t place) const {
    return lo <= place && place < hi;
  }
  [[nodiscard]] constexpr bool overlaps(Range other) const {
    return lo < other.hi && other.lo < hi;
  }
};

// Of a map by address: the last entry that begins no later than `address`, or end.
template <class Map>
[[nodiscard]] auto last_up_to(Map& map, std::uint64_t address) {
  const auto behind = map.upper_bound(address);
  return behind == map.begin() ? map.end() : std::prev(behind);
}

// Whole 2 MiB pages that hold so many bytes.
[[nodiscard]] constexpr std::uint64_t pages_of(std::uint64_t size_bytes) {
  return size_bytes / kPageBytes + (size_bytes % kPageBytes == 0 ? 0 : 1);
}

}  // namespace simcuda

// The size arithmetic of the caching allocator: how a request is rounded, which pool serves it, and
// how much is taken from the device for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "allocators/caching/settings.h"

namespace allocmark::caching {

inline constexpr std::uint64_t kBlockSizeMin = 512;  // smallest block and the rounding quantum
inline constexpr std::uint64_t kSmallSizeMax =
    kMiB;  // rounded requests up to this use the small pool
inline constexpr std::uint64_t kSmallSegmentSize = 2 * kMiB;  // segment and page of the small pool
inline constexpr std::uint64_t kOwnSegmentSizeMin =
    10 * kMiB;  // requests from here on get a segment of their own size
inline constexpr std::uint64_t kOwnSegmentRounding = 2 * kMiB;

// A power of two `quantum`.
[[nodiscard]] constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t quantum) {
  return (value + quantum - 1) & ~(quantum - 1);
}

// The interval of roundup_power2_divisions that a request falls into.
[[nodiscard]] constexpr std::size_t interval_index(std::uint64_t request_bytes) {
  const int log2 = static_cast<int>(std::bit_width(request_bytes)) - 1;
  return static_cast<std::size_t>(std::clamp(log2 - 20, 0, static_cast<int>(kIntervalCount) - 1));
}

// Rounds into one of `divisions` equal steps between two powers of two.
[[nodiscard]] constexpr std::uint64_t round_to_division(std::uint64_t request_bytes,
                                                        std::uint64_t divisions) {
  if (std::has_single_bit(request_bytes)) return request_bytes;
  const std::uint64_t power = std::bit_floor(request_bytes);
  const std::uint64_t step = power >> (std::bit_width(divisions) - 1);
  return step == 0 ? power << 1 : round_up(request_bytes, step);
}

[[nodiscard]] constexpr std::uint64_t round_request(std::uint64_t request_bytes,
                                                    const Settings& settings) {
  if (request_bytes < kBlockSizeMin) return kBlockSizeMin;
  const std::uint64_t divisions = settings.roundup_power2_divisions[interval_index(request_bytes)];
  if (divisions > 1 && request_bytes > kBlockSizeMin * divisions)
    return round_to_division(request_bytes, divisions);
  return round_up(request_bytes, kBlockSizeMin);
}

[[nodiscard]] constexpr bool is_small(std::uint64_t size_bytes) {
  return size_bytes <= kSmallSizeMax;
}

// What is asked of the device for a rounded request.
[[nodiscard]] constexpr std::uint64_t segment_size(std::uint64_t size_bytes,
                                                   const Settings& settings) {
  if (is_small(size_bytes)) return kSmallSegmentSize;
  if (size_bytes < kOwnSegmentSizeMin) return settings.large_segment_size_bytes;
  return round_up(size_bytes, kOwnSegmentRounding);
}

// Address space of an expandable segment: 9/8 of the device, or less where the settings say so.
[[nodiscard]] inline std::uint64_t segment_reserve(std::uint64_t device_bytes,
                                                   const Settings& settings) {
  const std::uint64_t full_bytes = device_bytes + device_bytes / 8;
  if (!settings.expandable_segments_reserve) return full_bytes;
  const SegmentReserve& reserve = *settings.expandable_segments_reserve;
  const double unit = static_cast<double>(reserve.is_share ? device_bytes : kGiB);
  const double bytes = reserve.value * unit;
  if (bytes >= static_cast<double>(full_bytes)) return full_bytes;
  return static_cast<std::uint64_t>(bytes);
}

// The unit in which an expandable segment grows and shrinks.
[[nodiscard]] constexpr std::uint64_t page_size(bool small_pool, const Settings& settings) {
  return small_pool ? kSmallSegmentSize : settings.large_segment_size_bytes;
}

}  // namespace allocmark::caching

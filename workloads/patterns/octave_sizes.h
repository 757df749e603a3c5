// Random sizes as generators draw them: octaves are equally likely, as in real traces, and sizes
// within an octave are uniform. Integer arithmetic only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include "workloads/trace/event_names.h"
#include "workloads/trace/parameters.h"

namespace allocmark {

// The largest size that a generator's key takes: sums of some of them stay far below 2^63.
inline constexpr std::uint64_t kGeneratedSizeBytesMax = kTraceSizeBytesEnd >> 4;

class OctaveSizes {
 public:
  OctaveSizes() = default;
  // 1 <= size_bytes_min <= size_bytes_max.
  OctaveSizes(std::uint64_t size_bytes_min, std::uint64_t size_bytes_max)
      : size_bytes_min_(size_bytes_min), size_bytes_max_(size_bytes_max) {
    octave_low_ = static_cast<int>(std::bit_width(size_bytes_min)) - 1;
    octave_count_ = static_cast<std::uint64_t>(std::bit_width(size_bytes_max)) -
                    static_cast<std::uint64_t>(octave_low_);
  }

  // The size that 64 random bits stand for.
  [[nodiscard]] std::uint64_t pick(std::uint64_t bits) const {
    const std::uint64_t octave =
        static_cast<std::uint64_t>(octave_low_) + ((bits & 0xFFFF) * octave_count_ >> 16);
    const std::uint64_t base = std::uint64_t{1} << octave;
    return std::clamp(base + ((bits >> 16) & (base - 1)), size_bytes_min_, size_bytes_max_);
  }
  [[nodiscard]] std::uint64_t size_bytes_min() const { return size_bytes_min_; }
  [[nodiscard]] std::uint64_t size_bytes_max() const { return size_bytes_max_; }

 private:
  std::uint64_t size_bytes_min_ = 1;
  std::uint64_t size_bytes_max_ = 1;
  int octave_low_ = 0;
  std::uint64_t octave_count_ = 1;
};

struct SizePresets {
  std::uint64_t lowest_bytes = 512;
  std::uint64_t highest_bytes = 64u << 20;
};

// Reads the keys `size_min` and `size_max`.
[[nodiscard]] inline OctaveSizes read_sizes(Parameters& parameters, const SizePresets& presets) {
  const std::uint64_t lowest =
      parameters.size_bytes("size_min", presets.lowest_bytes, {1, kGeneratedSizeBytesMax});
  const std::uint64_t highest = parameters.size_bytes(
      "size_max", std::max(presets.highest_bytes, lowest), {lowest, kGeneratedSizeBytesMax});
  return {lowest, highest};
}

// Blocks that a generator may have live at once: its memory follows them.
inline constexpr std::uint64_t kGeneratedBlockCountMax = std::uint64_t{1} << 24;

// Refuses `key`, which says how many bytes are live, where blocks of the smallest size would be too
// many.
inline void require_few_blocks(const Parameters& parameters, std::string_view key,
                               std::uint64_t live_bytes, std::uint64_t size_bytes_min) {
  if (live_bytes / size_bytes_min <= kGeneratedBlockCountMax) return;
  parameters.refuse(key,
                    "at most " + std::to_string(kGeneratedBlockCountMax) +
                        " blocks of the smallest size, " + std::to_string(size_bytes_min) +
                        " bytes",
                    live_bytes);
}

// Refuses `key`, which says how many blocks of size_bytes are live, where their bytes would be more
// than a trace may have.
inline void require_live_bytes(const Parameters& parameters, std::string_view key,
                               std::uint64_t count, std::uint64_t size_bytes) {
  constexpr std::uint64_t kLiveBytesMax = kTraceLiveBytesEnd >> 2;
  if (size_bytes == 0 || count <= kLiveBytesMax / size_bytes) return;
  parameters.refuse(key,
                    "so few blocks of " + std::to_string(size_bytes) +
                        " bytes that less than 2^61 bytes are live",
                    count);
}

}  // namespace allocmark

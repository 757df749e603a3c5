// What the checked pass writes into blocks: 64-bit words that name the block (by the event that
// allocated it, which no two blocks share) and their place in it, so that a word found in the wrong
// place says whose it is. Host and device code; this file checks.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define ALLOCMARK_HOST_DEVICE __host__ __device__
#else
#define ALLOCMARK_HOST_DEVICE
#endif

namespace allocmark {

inline constexpr std::uint64_t kPatternBytes = sizeof(std::uint64_t);
// Odd, so that multiplying by it loses nothing; spreads small numbers over all bits.
inline constexpr std::uint32_t kPatternFactor = 0x9E3779B1u;
inline constexpr std::uint32_t kPatternFactorInverse = 0xE8B2F51u;
static_assert(kPatternFactor * kPatternFactorInverse == 1);

struct PatternPlace {
  std::uint64_t event_index = 0;   // of the allocation; below 2^32 - 1
  std::uint64_t offset_bytes = 0;  // of the word in the block; a multiple of 8
};

ALLOCMARK_HOST_DEVICE constexpr std::uint64_t pattern_word(PatternPlace place) {
  const auto name = static_cast<std::uint32_t>(place.event_index + 1) * kPatternFactor;
  return std::uint64_t{name} << 32 | static_cast<std::uint32_t>(place.offset_bytes / kPatternBytes);
}

// Whose word it is, if it is a pattern's at all.
constexpr PatternPlace place_of_word(std::uint64_t word) {
  const std::uint32_t number = static_cast<std::uint32_t>(word >> 32) * kPatternFactorInverse;
  return {.event_index = std::uint64_t{number} - 1,
          .offset_bytes = std::uint64_t{static_cast<std::uint32_t>(word)} * kPatternBytes};
}

}  // namespace allocmark

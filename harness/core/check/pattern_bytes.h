// A part of a block's pattern (harness/core/replay/block_pattern.h) as bytes: written, and
// compared. This file checks.
#pragma once

#include <cstdint>
#include <optional>

namespace allocmark {

// Bytes [begin, end) of a block; begin is a multiple of a word's size.
struct PatternPart {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A word that is not what was written.
struct PatternChange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t expected = 0;
  std::uint64_t found = 0;
};

// `to` is where the part begins.
void fill_pattern(char* to, const PatternPart& part, std::uint64_t event_index);

// The first word of the part that fill_pattern did not write.
[[nodiscard]] std::optional<PatternChange> find_change(const char* contents,
                                                       const PatternPart& part,
                                                       std::uint64_t event_index);

}  // namespace allocmark

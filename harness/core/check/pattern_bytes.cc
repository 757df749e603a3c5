// See pattern_bytes.h. The words of a part follow each other by one, which lets both loops run at
// the memory's speed.
#include "harness/core/check/pattern_bytes.h"

#include <algorithm>
#include <cstring>

#include "harness/core/replay/block_pattern.h"

namespace allocmark {
namespace {

// Whether the bytes are what fill_pattern wrote.
bool is_filled(const char* contents, const PatternPart& part, std::uint64_t event_index) {
  const std::uint64_t first =
      pattern_word({.event_index = event_index, .offset_bytes = part.begin});
  const std::uint64_t word_count = (part.end - part.begin) / kPatternBytes;
  const auto* const words = reinterpret_cast<const std::uint64_t*>(contents);
  std::uint64_t difference = 0;
  for (std::uint64_t i = 0; i < word_count; ++i) difference |= words[i] ^ (first + i);
  const std::uint64_t last = first + word_count;
  return difference == 0 &&
         std::memcmp(words + word_count, &last, (part.end - part.begin) % kPatternBytes) == 0;
}

}  // namespace

void fill_pattern(char* to, const PatternPart& part, std::uint64_t event_index) {
  const std::uint64_t first =
      pattern_word({.event_index = event_index, .offset_bytes = part.begin});
  const std::uint64_t word_count = (part.end - part.begin) / kPatternBytes;
  auto* const words = reinterpret_cast<std::uint64_t*>(to);
  for (std::uint64_t i = 0; i < word_count; ++i) words[i] = first + i;
  const std::uint64_t last = first + word_count;
  std::memcpy(words + word_count, &last, (part.end - part.begin) % kPatternBytes);
}

std::optional<PatternChange> find_change(const char* contents, const PatternPart& part,
                                         std::uint64_t event_index) {
  if (is_filled(contents, part, event_index)) return std::nullopt;
  for (std::uint64_t at = part.begin; at < part.end; at += kPatternBytes) {
    const std::uint64_t expected = pattern_word({.event_index = event_index, .offset_bytes = at});
    std::uint64_t found = expected;
    std::memcpy(&found, contents + (at - part.begin), std::min(kPatternBytes, part.end - at));
    if (found != expected) {
      return PatternChange{.offset_bytes = at, .expected = expected, .found = found};
    }
  }
  return std::nullopt;
}

}  // namespace allocmark

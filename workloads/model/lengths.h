// How long requests are, in tokens: drawn from measured distributions or a lognormal one, with
// integer arithmetic only, so that the same seed gives the same lengths on every machine.
#pragma once

#include <cstdint>

#include "base/random.h"

namespace allocmark {

enum class LengthSource : std::uint8_t { Conversation, Code, Lognormal };

struct LengthSettings {
  LengthSource source = LengthSource::Conversation;
  std::uint64_t median = 90;         // Lognormal: tokens
  std::uint64_t sigma_percent = 70;  // Lognormal: 100 times the standard deviation of the logarithm
  std::uint64_t context_max = 0;     // longer prompts are cut
  std::uint64_t generated_max = 0;   // longer answers are cut
  std::uint64_t longest_percent = 0;  // of the draws: the longest that can be drawn
};

struct RequestLengths {
  std::uint64_t context = 1;
  std::uint64_t generated = 1;
};

// Prompt and answer are independent: their correlation in the measured data is nearly 0.
[[nodiscard]] RequestLengths draw_lengths(const LengthSettings& settings, Random* random);

}  // namespace allocmark

// When requests arrive at a server: an open loop, so nothing that the server does changes it. Same
// settings and seed, same times on every machine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace allocmark {

enum class ArrivalSource : std::uint8_t {
  Poisson,  // gaps without memory
  Gamma,    // independent gaps with a given coefficient of variation: bursts where it is above 1
  Code,     // as the Azure code trace of 2023: bursts, and minutes without a request
  Conversation,  // as the Azure conversation trace of 2023: nearly Poisson, at a rate that drifts
};

struct ArrivalSettings {
  ArrivalSource source = ArrivalSource::Poisson;
  std::uint64_t per_minute = 120;  // mean rate, above 0; the Azure processes are played faster or
                                   // slower to reach it
  std::uint64_t cv_percent = 300;  // Gamma: 100 times standard deviation / mean of the gaps, 20 to
                                   // 1000
};

// Requests per minute of the Azure trace itself, rounded; 0 for the others.
[[nodiscard]] std::uint64_t own_rate_per_minute(ArrivalSource source);

class Arrivals {
 public:
  Arrivals(const ArrivalSettings& settings, std::uint64_t seed);

  // The next arrival in ns since the start; never before the last one.
  [[nodiscard]] std::uint64_t next_ns();

 private:
  [[nodiscard]] std::uint64_t code_gap_us();
  [[nodiscard]] std::uint64_t conversation_gap_us();

  ArrivalSettings settings_;
  Random random_;
  std::uint64_t mean_gap_ns_ = 0;
  std::uint64_t now_ns_ = 0;
  std::uint64_t trace_us_ = 0;       // Azure: the trace's own clock
  std::uint64_t left_in_block_ = 0;  // Code: gaps until the next mood
  std::size_t mood_ = 0;             // Code: index of a table
  std::size_t minute_ = 0;           // Conversation: of the profile
  std::uint64_t minute_us_ = 0;      // Conversation: since it began
};

}  // namespace allocmark

// How fast a workload's events are made, and how much memory that takes: the generator alone, with
// no allocator behind it. This file times.
#pragma once

#include <cstdint>
#include <string>

namespace allocmark {

struct GenerationSpeed {
  std::string workload;
  std::uint64_t event_count = 0;
  double million_events_per_s = 0;  // of one core's processor time; target: 20
  // By which this process's resident memory grew beyond what it was before the source was opened,
  // largest value seen, over the first tenth of the events and over all of them. Target: equal but
  // for a MiB, for a trace of any length.
  std::uint64_t tenth_growth_bytes = 0, growth_bytes = 0;
};

// Makes event_count events (at least), starting again from the first where the trace ends. Throws
// UsageError on a bad workload.
[[nodiscard]] GenerationSpeed measure_generation(const std::string& workload,
                                                 std::uint64_t event_count);

// One line with the target.
[[nodiscard]] std::string to_text(const GenerationSpeed& speed);

}  // namespace allocmark

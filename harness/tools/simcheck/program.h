// Programs that ask for memory: random ones from a seed, and traces. One runs on both devices. A
// program is rows of the trace format, so that what is left of it can be kept as a trace.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/trace/event.h"

namespace allocmark::simcheck {

struct Program {
  std::string name;  // "seed 7", or the trace's
  std::uint32_t stream_count = 1;
  std::uint64_t capacity_bytes = 0;  // left on the device; 0: all
  std::vector<Event> events{};
  friend bool operator==(const Program&, const Program&) = default;
};

// Odd seeds use one stream, even ones three; of either kind every second has little memory left.
[[nodiscard]] Program random_program(std::uint64_t seed, std::uint64_t event_count);

// A workload by its name, at most `event_count_max` events of it; with little memory left where
// `full`. Throws UsageError.
[[nodiscard]] Program read_program(const std::string& workload, std::uint64_t event_count_max,
                                   bool full);

// Most bytes that are live at once.
[[nodiscard]] std::uint64_t peak_bytes(const std::vector<Event>& events);

// Without rows of blocks that were never asked for.
[[nodiscard]] std::vector<Event> without_strangers(const std::vector<Event>& events);

// "alloc,3,512,0", and all of them as a trace file.
[[nodiscard]] std::string to_row(const Event& event);
[[nodiscard]] std::string to_trace(const Program& program);

}  // namespace allocmark::simcheck

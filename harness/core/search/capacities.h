// The least capacity that serves a job, from passes that each settle an interval of capacities
// (search.h says why). A way to make such a pass flows in; the least capacity flows out. Pure
// search: no device.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace allocmark {

// Capacities from low on and below high, in bytes.
struct SettledRange {
  std::uint64_t low_bytes = 0, high_bytes = 0;
};

struct Probe {
  bool serves = false;  // every request
  SettledRange range;   // holds the capacity asked for
};

struct LeastCapacityInput {
  std::uint64_t needed_bytes = 0;      // no less can serve
  std::uint64_t usable_bytes = 0;      // whole pages; no more is asked for
  std::uint32_t settle_count_max = 0;  // passes above the least capacity; 0: as many as it takes
};

struct LeastCapacity {
  // The least from which every larger one up to usable_bytes serves; nothing where that one fails.
  std::optional<std::uint64_t> least_bytes = std::nullopt;
  std::uint64_t unsettled_bytes = 0;  // above it, where settle_count_max was reached
  std::optional<std::uint64_t> serves_below_bytes = std::nullopt;
};

[[nodiscard]] LeastCapacity find_least_capacity(const LeastCapacityInput& input,
                                                const std::function<Probe(std::uint64_t)>& probe);

}  // namespace allocmark

// Goal: what the live comparison says depends on decisions alone, not on how often each side calls
// the runtime.
#include "harness/tools/parity/live_parity.h"

#include <algorithm>
#include <cstdint>

#include "tests/catch.h"

TEST_CASE("busy streams of neighbouring steps end at least a millisecond apart") {
  constexpr std::uint64_t kStepCount = 20'000;
  constexpr std::uint64_t kNeighbourCount = 30;
  constexpr std::uint64_t kGapNsMin = 1'000'000;
  std::uint64_t gap_ns_min = allocmark::busy_ns(0);
  for (std::uint64_t step = 0; step < kStepCount; ++step) {
    const std::uint64_t own_ns = allocmark::busy_ns(step);
    for (std::uint64_t other = step + 1; other <= step + kNeighbourCount; ++other) {
      const std::uint64_t other_ns = allocmark::busy_ns(other);
      gap_ns_min = std::min(gap_ns_min, std::max(own_ns, other_ns) - std::min(own_ns, other_ns));
    }
  }
  CHECK(gap_ns_min >= kGapNsMin);
}

// What the harness itself costs: a trace's first steps, replayed on the null backend under the
// recorder. The smallest latency that this process can show. This file times.
#pragma once

#include <cstdint>

#include "harness/clock.h"
#include "harness/prepared_trace.h"
#include "harness/simcu_api.h"
#include "results/schema.h"

namespace allocmark {

inline constexpr std::uint64_t kNullPrefixCountMax = 65536;

struct NullOverheadSetup {
  const TickClock* clock = nullptr;               // calibrated
  const SimcuThreadClock* simcu_clock = nullptr;  // as for the cell's own passes
  std::uint32_t stream_count = 1;
  std::uint64_t event_count_min = 16384;  // the prefix is repeated until that many events have run
};

// Latency of allocate and deallocate together; a warm-up round is not counted.
[[nodiscard]] LatencySummary null_overhead(const TraceBatch& prefix,
                                           const NullOverheadSetup& setup);

}  // namespace allocmark

// The trace of one rank, ready for replay, with its marks' labels. A workload's text flows in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/core/replay/trace_compiler.h"

namespace allocmark {

struct RankTrace {
  std::vector<ReplayStep> steps;
  std::vector<std::string> labels;  // by ReplayStep::slot of marks
  TraceFacts facts;
  std::uint32_t slot_count = 0;
};

// Traces of all ranks of a run are kept: so many events together.
inline constexpr std::uint64_t kRankEventCountMax = std::uint64_t{16} << 20;

// Throws UsageError where the workload is bad, of several processes, or has more than
// `event_count_max` events.
[[nodiscard]] RankTrace read_rank_trace(const std::string& workload, std::uint64_t seed,
                                        std::uint64_t event_count_max);

}  // namespace allocmark

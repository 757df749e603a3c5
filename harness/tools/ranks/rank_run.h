// One rank while it replays: its device, allocator, streams and place in the schedule. All of it is
// made, used and destroyed on the rank's own thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocators/backend/backend.h"
#include "harness/core/replay/trace_compiler.h"
#include "harness/tools/ranks/ranks.h"
#include "harness/tools/ranks/schedule.h"

namespace allocmark {

// The trace of one rank, ready for replay, with its marks' labels.
struct RankTrace {
  std::vector<ReplayStep> steps;
  std::vector<std::string> labels;  // by ReplayStep::slot of marks
  TraceFacts facts;
  std::uint32_t slot_count = 0;
};

// Written by the rank that waits for another: turns keep ranks apart.
struct RankWaits {
  std::uint64_t wait_ns = 0, delay_ns = 0;
};

struct RankPlace {
  const RanksSpec* spec = nullptr;
  const BackendEntry* entry = nullptr;
  const RankTrace* trace = nullptr;
  Backend* shared_backend = nullptr;  // of all ranks, which has a state per device; or null
  Schedule* schedule = nullptr;
  std::vector<RankWaits>* waits = nullptr;
  std::uint32_t index = 0;  // of the rank and its device
};

// Replays to the end, to the first failure, or to a meeting that never happens.
[[nodiscard]] RankRow run_rank(const RankPlace& place);

}  // namespace allocmark

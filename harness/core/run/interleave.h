// Runs both sides of an interleaved plan in turn, a process per cell, side and round; the two
// processes of a cell alternate pass by pass where the plan says so and the device can be shared. A
// plan flows in; each process's result flows out through a callback as it ends. Times nothing
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "harness/core/check/verify_level.h"
#include "harness/core/run/placement_difference.h"
#include "harness/core/run/run.h"
#include "harness/core/run/run_group.h"
#include "harness/job/interrupt.h"
#include "results/compare/interleaved.h"

namespace allocmark {

struct InterleaveOptions {
  VerifyLevel verify = VerifyLevel::Edges;  // of the first round; later ones repeat what it checked
  std::uint64_t timeout_s = 0;              // of a process; 0 = none
  std::uint32_t job_count = 1;              // processes at a time
  const InterruptGuard* interrupt = nullptr;  // may be null
  // What the first round's processes place where is held against each other; may be null.
  PlacementDifferences* placements = nullptr;
};

// What is started in a round, in order: cells in an order of their own each round, the sides of a
// cell one after the other. Which side is first changes in the second of two rounds and is drawn in
// the first, so that neither side is always the one that finds the machine as the other left it.
struct Turn {
  std::size_t cell_index = 0;
  std::uint32_t side = 0;
};
[[nodiscard]] std::vector<Turn> turns_of_round(const InterleavedPlan& plan, std::uint32_t round,
                                               const std::set<std::size_t>& cell_indices);

// The turns as what runs them: a group of two processes for each cell.
[[nodiscard]] std::vector<RunGroupSpec> groups_of_round(const InterleavedPlan& plan,
                                                        const InterleaveOptions& options,
                                                        const std::vector<Turn>& turns,
                                                        std::uint32_t round);

// Called after each look but the last with nothing; returns the cells that go on.
using Look = std::function<std::set<std::size_t>()>;

// Returns false where an interrupt ended it. A cell that has no measurement on a side is not run
// again.
[[nodiscard]] bool run_interleaved(const InterleavedPlan& plan, const InterleaveOptions& options,
                                   const Look& look,
                                   const std::function<void(const RoundResult&)>& on_result);

}  // namespace allocmark

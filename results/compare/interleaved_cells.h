// The lines of an interleaved run, sorted by cell and round. Flows in: the run as stored; flows
// out: the rounds of each cell of the plan, and what stands for a side where no time is compared.
// Neither times nor checks allocators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "results/compare/interleaved.h"
#include "results/schema.h"

namespace allocmark {

// Both sides of a cell in one round.
struct RoundPair {
  const CellResult* base = nullptr;
  const CellResult* now = nullptr;
  bool in_turns = false;
};

// One process: its result, and where in InterleavedRun::rounds it stands.
struct RoundLine {
  const CellResult* cell = nullptr;
  std::size_t index = 0;
};

// Both sides' results of one cell in the order of their rounds.
struct CellRounds {
  std::array<std::map<std::uint32_t, RoundLine>, kSideCount> results;
  std::set<std::uint32_t> rounds_apart = {};  // those whose passes did not alternate

  // Rounds in which both sides have a measurement.
  [[nodiscard]] std::vector<RoundPair> pairs() const;
  // Of those, one side's processes.
  [[nodiscard]] std::vector<const CellResult*> processes(std::size_t side) const;
  // Whether both sides have all rounds up to a look, or one ended the cell by having no result.
  [[nodiscard]] bool ended_at(const std::vector<std::uint32_t>& looks,
                              std::uint32_t round_count_max) const;
  // A process of the side that decided otherwise than the first: placements, failures, memory.
  [[nodiscard]] const RoundLine* deviating(std::size_t side) const;
  // What stands for the side where no time is compared: a round without a result, else the first.
  [[nodiscard]] const RoundLine* outcome(std::size_t side) const;
};

// The same with whole cells, which `kept` has: read now, where the run holds summaries.
[[nodiscard]] CellRounds whole_rounds(const InterleavedRun& run, CellRounds rounds,
                                      std::deque<CellResult>& kept);

// What does not belong into a whole and unedited file.
struct StrayLines {
  std::size_t repeated_count = 0, unplanned_count = 0;
};

// By index of the plan's cells.
[[nodiscard]] std::vector<CellRounds> rounds_by_cell(const InterleavedRun& run, StrayLines& stray);

}  // namespace allocmark

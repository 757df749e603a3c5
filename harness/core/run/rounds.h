// Runs cells so that the timed passes of each are spread over the run: every cell is started,
// checked and timed once, then in further rounds each gets one more pass, in an order of its own
// each round. What disturbs the machine for seconds or minutes then shows as a difference between
// the passes of a cell, and so in the interval that the cell states. Processes wait between their
// passes; what they hold is bounded, and where the bound is reached the cells so far are finished
// before others begin. Times nothing itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/cell/cell.h"
#include "harness/job/interrupt.h"
#include "results/schema.h"

namespace allocmark {

struct RoundsOptions {
  std::string program_path;                   // what is started with "cell"
  std::uint32_t job_count = 1;                // processes at work at a time
  const InterruptGuard* interrupt = nullptr;  // may be null
  std::uint64_t waiting_bytes_max = 0;        // what waiting processes may hold together
  std::uint32_t waiting_count_max = 1;        // and how many they may be, 1 or more
};

struct RoundsSinks {
  std::function<void(const CellResult&)> on_result;  // a cell has ended
  // A cell so far, with passes_to_come; its result follows, unless the run ends before.
  std::function<void(const CellResult&)> on_part = [](const CellResult&) {};
  // After every turn, how many passes a cell has had more, its untimed ones included.
  std::function<void(std::uint32_t)> on_passes = [](std::uint32_t) {};
};

// Untimed passes of a cell, for who counts passes: the checked one, and the one that looks into
// blocks.
inline constexpr std::uint32_t kUntimedPassCount = 2;

// Returns true where all cells were run, false where an interrupt ended it: running cells are then
// ended, and what they had was handed to on_part. An exception of a sink ends them, too.
[[nodiscard]] bool run_in_rounds(const std::vector<CellSpec>& specs, const RoundsOptions& options,
                                 const RoundsSinks& sinks);

// What waiting processes may hold on this machine: half of the memory that is available now, and as
// many processes as our limit on open files allows, at most 256.
void bound_waiting(RoundsOptions* options);

}  // namespace allocmark

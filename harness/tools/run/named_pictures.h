// Memory over time and address maps of the cells that a run's answer names, from untimed passes of
// their own after all timed ones. Cells with results flow in; files of DIR/timelines/ flow out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/core/run/run.h"
#include "results/schema.h"

namespace allocmark {

// At most so many cells get a pass, each of at most so long: what pictures may cost a run.
inline constexpr std::size_t kPictureCountMax = 8;
inline constexpr std::uint64_t kPictureTimeoutS = 30;

// Unset and the best setting that serves every request, of each experiment in which unset fails or
// was not measured, in the order of the cells; of the only experiment, or of the first where
// nothing fails, in any case.
[[nodiscard]] std::vector<CellKey> cells_of_answer(std::span<const CellResult> cells);

// A cell whose pass fails, takes too long or is interrupted has no file. Returns how many have one.
std::size_t draw_cells(const std::vector<CellKey>& cells, const std::string& folder,
                       const RunCellsOptions& options);

}  // namespace allocmark

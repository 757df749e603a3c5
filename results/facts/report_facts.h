// What the page for people shows and only this program may compute: derived numbers, samples that a
// quantile needs, tail curves, and verdicts against other runs. Flows in: cells and comparisons;
// flows out: one JSON object that scripts/report reads (its FACTS.md defines it). Neither times nor
// checks allocators.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "results/cell_source.h"
#include "results/compare/compare.h"
#include "results/schema.h"

namespace allocmark {

inline constexpr std::size_t kPageCellsMax = 1500;

// A run that the reported one is held against.
struct ReportedComparison {
  std::string path = {};  // of the base run, as its user named it
  RunSide base = {};      // its cells, of which a few are shown beside the new ones
  Comparison comparison = {};
};

// What a page is made of. All refer to what the caller keeps.
struct ReportInput {
  const Environment& environment;
  std::span<const CellResult> cells;  // summaries or whole
  const CellSource& whole;            // the same cells
  std::span<const ReportedComparison> comparisons = {};
  std::vector<std::string> notes = {};  // what a reader must know about the file itself
  // Cells with a place on the page: it is to stay small, however large the run is.
  std::size_t cell_count_max = kPageCellsMax;
};

// Long where there are many cells: it is kept beside the memory.
[[nodiscard]] StoredText render_report_facts(const ReportInput& input);

}  // namespace allocmark

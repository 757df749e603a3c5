// What the page for people shows and only this program may compute: derived numbers, samples that a
// quantile needs, tail curves, and verdicts against other runs. Flows in: cells and comparisons;
// flows out: one JSON object that scripts/report reads (its FACTS.md defines it). Neither times nor
// checks allocators.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "results/compare/compare.h"
#include "results/schema.h"

namespace allocmark {

// A run that the reported one is held against.
struct ReportedComparison {
  std::string path = {};  // of the base run, as its user named it
  std::vector<CellResult> base_cells = {};
  Comparison comparison = {};
};

[[nodiscard]] std::string render_report_facts(std::span<const CellResult> cells,
                                              std::span<const ReportedComparison> comparisons);

}  // namespace allocmark

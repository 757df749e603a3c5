// The cells of one side of a comparison: what names each of them, and each whole, one at a time.
// Flows in: a side, whose file has cells or their outlines; flows out: cells by index.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "results/cell_summary.h"
#include "results/compare/compare.h"
#include "results/schema.h"

namespace allocmark {

class SideCells {
 public:
  // The side must stay where it is.
  explicit SideCells(const RunSide& side);

  [[nodiscard]] std::span<const CellOutline> outlines() const { return outlines_; }
  // With everything that the file has of it. Valid until the next call.
  [[nodiscard]] const CellResult& whole(std::size_t index) const;

 private:
  const RunSide& side_;
  std::vector<CellOutline> made_;  // where the side has cells
  std::span<const CellOutline> outlines_;
};

// That a plugin's record_stream was called in no cell of the side; empty where one cell did.
[[nodiscard]] std::string uncalled_record_note(const SideCells& cells);

// Of the planned cells only those without a result are asked for again.
void forget_measured(RunSide* side);

}  // namespace allocmark

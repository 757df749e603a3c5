// See side_cells.h.
#include "results/compare/side_cells.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <unordered_set>

#include <fmt/format.h>

#include "results/cell_words.h"

namespace allocmark {

SideCells::SideCells(const RunSide& side) : side_(side), outlines_(side.file.outlines) {
  if (side.file.cells.empty()) return;
  made_.reserve(side.file.cells.size());
  std::ranges::transform(side.file.cells, std::back_inserter(made_), outline_of);
  outlines_ = made_;
}

const CellResult& SideCells::whole(std::size_t index) const {
  const bool is_here = !side_.file.cells.empty() && !side_.file.cells[index].is_summary;
  return is_here ? side_.file.cells[index] : side_.whole.whole(index);
}

std::string uncalled_record_note(const SideCells& cells) {
  const std::span<const CellOutline> outlines = cells.outlines();
  if (outlines.empty() || !std::ranges::all_of(outlines, &CellOutline::record_uncalled)) return {};
  return fmt::format("{}: no cell uses a block on another stream ({})", kRecordUncalled,
                     kRecordingWorkloads);
}

void forget_measured(RunSide* side) {
  std::unordered_set<std::string> measured;
  for (const CellOutline& cell : side->file.outlines) measured.insert(cell.key.id());
  std::erase_if(side->planned, [&](const CellKey& key) { return measured.contains(key.id()); });
  side->planned.shrink_to_fit();
}

}  // namespace allocmark

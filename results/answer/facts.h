// The answers for the page, as JSON; scripts/report/FACTS.md says what it holds. Flows in: cells;
// flows out: text that scripts/report lays out.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "results/schema.h"

namespace allocmark {

// Which cells of a large run have a place on the page: whole experiments, those first in which
// something was decided, as many as have this number of cells together. By index of the cell.
[[nodiscard]] std::vector<bool> shown_cells(std::span<const CellResult> cells,
                                            std::size_t cell_count_max);

// {"sentence", "paste", "legend", "outcomes", "experiments": [...], "others": [...]}: the others
// are experiments whose cells are not shown. Without `shown` all are.
[[nodiscard]] nlohmann::ordered_json answers_json(std::span<const CellResult> cells,
                                                  const std::vector<bool>& shown = {});

// The tables' columns and the values of every shown cell in them, as the terminal and report.md
// show them.
[[nodiscard]] nlohmann::ordered_json columns_json(std::span<const CellResult> cells,
                                                  const std::vector<bool>& shown = {});

}  // namespace allocmark

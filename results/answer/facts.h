// The answers for the page, as JSON; scripts/report/FACTS.md says what it holds. Flows in: cells;
// flows out: text that scripts/report lays out.
#pragma once

#include <span>

#include <nlohmann/json_fwd.hpp>

#include "results/schema.h"

namespace allocmark {

// {"sentence", "paste", "legend", "experiments": [...]}
[[nodiscard]] nlohmann::ordered_json answers_json(std::span<const CellResult> cells);

// The tables' columns and every cell's values in them, as the terminal and report.md show them.
[[nodiscard]] nlohmann::ordered_json columns_json(std::span<const CellResult> cells);

}  // namespace allocmark

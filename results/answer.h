// The question that users come with, answered in a paragraph per experiment: which allocator and
// config string had no OOM, and what it cost in latency against PyTorch's allocator without one.
// Flows in: a group of cells; flows out: text that says only what the numbers support.
#pragma once

#include <string>
#include <string_view>

#include "results/columns.h"

namespace allocmark {

// How text is escaped for where it is printed.
struct TextStyle {
  std::string (*name)(std::string_view);   // names and config strings
  std::string (*plain)(std::string_view);  // everything else
};

[[nodiscard]] TextStyle terminal_style();
[[nodiscard]] TextStyle markdown_style();

// One paragraph, on one line.
[[nodiscard]] std::string answer(const CellGroup& group, const TextStyle& style);

// Whether a cell of the group ran out of memory, or has no numbers: where neither, there is nothing
// to decide.
[[nodiscard]] bool needs_answer(const CellGroup& group);

// How to read the marks and ratios of the answers; plain text on one line.
[[nodiscard]] std::string_view answer_legend();

// What the experiment was: "train:x, capacity 1.05x (3.2 GiB), device sim:h200, seed 0, on OOM
// skip".
[[nodiscard]] std::string group_title(const CellGroup& group, const TextStyle& style);

}  // namespace allocmark

// Groups of cells made by hand, and what the answer says of them: for tests of the answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/answer/answer.h"
#include "tests/catch.h"
#include "tests/support/sample_run.h"

namespace allocmark::answer_cells {

inline CellResult cell(const std::string& allocator, const std::string& conf,
                       std::uint64_t oom_count = 0, double scale_ns = 40) {
  return sample::run_cell({.workload = "w",
                           .allocator = allocator,
                           .conf = conf,
                           .capacity = "1.1x",
                           .oom_count = oom_count,
                           .scale_ns = scale_ns});
}

// A cell whose steps take this long, its passes 1 % apart.
inline CellResult step_cell(const std::string& allocator, const std::string& conf, double step_ns,
                            std::uint64_t oom_count = 0) {
  CellResult result = cell(allocator, conf, oom_count);
  result.allocator_ns_per_step = step_ns;
  std::uint64_t count = 1000;
  for (PassSummary& pass : result.passes) {
    pass.allocate_buckets = {{.index = 700, .count = count}};
    count += 10;
  }
  return result;
}

inline CellGroup group_of(const std::vector<CellResult>& cells) {
  const std::vector<CellGroup> groups = group_cells(cells);
  REQUIRE(groups.size() == 1);
  return groups[0];
}

inline std::string sentence_of(const std::vector<CellResult>& cells) {
  const CellGroup group = group_of(cells);
  return answer_sentence(group, find_answer(group), terminal_style());
}

inline std::string lines_of(const std::vector<CellResult>& cells) {
  const CellGroup group = group_of(cells);
  std::string text;
  for (const std::string& line : answer_lines(group, find_answer(group), terminal_style())) {
    text += line + '\n';
  }
  return text;
}

inline std::vector<std::string> names_of(const std::vector<RankedCell>& cells) {
  std::vector<std::string> names;
  for (const RankedCell& one : cells)
    names.push_back(setting_name(one.cell->key, terminal_style()));
  return names;
}

}  // namespace allocmark::answer_cells

// The answer over the measured candidates of 'advise'.
#include "harness/cli/advise_answer.h"

#include <algorithm>

#include <fmt/format.h>

#include "results/answer/answer.h"
#include "results/columns/columns.h"

namespace allocmark {

std::string measured_cost(const std::vector<CellResult>& cells, const std::string& conf) {
  const auto found = std::ranges::find(
      cells, conf, [](const CellResult& cell) -> const std::string& { return cell.key.conf; });
  if (found == cells.end()) return "";
  for (const CostMetric metric :
       {CostMetric::RequestP99, CostMetric::TimePerStep, CostMetric::TimePerPass}) {
    if (const auto cost = cost_of(*found, metric)) {
      return fmt::format("{:.3f}", cost->value_ns / 1e6);
    }
  }
  return "";
}

std::vector<std::string> measured_answer(const std::vector<CellResult>& cells) {
  std::vector<std::string> lines;
  for (const CellGroup& group : group_cells(cells)) {
    for (std::string& line : answer_lines(group, find_answer(group), terminal_style())) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

}  // namespace allocmark

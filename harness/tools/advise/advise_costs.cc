// What the finalists cost (advice.h).
#include "harness/tools/advise/advice.h"

#include <algorithm>
#include <utility>

#include "results/columns/columns.h"

namespace allocmark {
namespace {

// Of a framework, whose settings are cells of several allocators; the cheapest first.
std::vector<FinalistCost> framework_costs(const Advice& advice, CostMetric metric) {
  const CellResult* unset = cell_of(advice, "");
  const std::optional<CellCost> base = unset != nullptr && outcome_of(*unset) == Outcome::Ok
                                           ? cost_of(*unset, metric)
                                           : std::nullopt;
  std::vector<FinalistCost> costs;
  for (const std::string& setting : advice.finalists) {
    const CellResult* cell = cell_of(advice, setting);
    if (cell == nullptr || outcome_of(*cell) == Outcome::None) continue;
    const std::optional<CellCost> cost = cost_of(*cell, metric);
    if (!cost) continue;
    FinalistCost one{
        .conf = setting, .served = outcome_of(*cell) == Outcome::Ok, .value_ns = cost->value_ns};
    if (base && cell != unset) {
      one.difference_ns = cost->value_ns - base->value_ns;
      one.may_be_noise = may_be_noise(*cost, *base);
    }
    costs.push_back(std::move(one));
  }
  std::ranges::stable_sort(costs, {}, &FinalistCost::value_ns);
  return costs;
}

}  // namespace

std::optional<Measured> measured_of(const std::vector<CellResult>& cells) {
  std::vector<CellGroup> groups = group_cells(cells);
  if (groups.empty()) return std::nullopt;
  Answer answer = find_answer(groups.front());
  return Measured{.groups = std::move(groups), .answer = std::move(answer)};
}

const CellResult* cell_of(const Advice& advice, const std::string& setting) {
  const CellKey key = key_of(advice.search, setting);
  const auto found = std::ranges::find_if(advice.cells, [&](const CellResult& cell) {
    return cell.key.allocator == key.allocator && cell.key.conf == key.conf;
  });
  return found == advice.cells.end() ? nullptr : &*found;
}

std::vector<FinalistCost> costs_of(const Advice& advice, const std::optional<Measured>& measured) {
  if (!measured) return searched_costs(advice.search.judged, advice.search.own.capacity_bytes);
  if (advice.search.framework) return framework_costs(advice, measured->answer.metric);
  std::vector<FinalistCost> costs;
  if (const CellResult* unset = measured->answer.baseline) {
    const std::optional<CellCost>& cost = measured->answer.baseline_cost;
    costs.push_back({.conf = "",
                     .served = outcome_of(*unset) == Outcome::Ok,
                     .value_ns = cost ? cost->value_ns : 0});
  }
  for (const RankedCell& one : measured->answer.settable) {
    if (!one.cost) continue;
    costs.push_back({.conf = one.cell->key.conf,
                     .served = true,
                     .value_ns = one.cost->value_ns,
                     .difference_ns = one.difference_ns,
                     .may_be_noise = one.may_be_noise || !one.range_known});
  }
  return costs;
}

}  // namespace allocmark

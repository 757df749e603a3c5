// Answers and table columns as JSON.
#include "results/answer/facts.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "results/answer/answer.h"
#include "results/columns/columns.h"
#include "results/json.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson ranked_json(const RankedCell& ranked, const Answer& answer) {
  OrderedJson json = {{"cell_id", ranked.cell->key.id()},
                      {"text", cost_text(ranked, answer)},
                      {"paste", line_to_paste(ranked.cell->key)},
                      {"difference_ns", number_or_null(ranked.difference_ns)},
                      {"may_be_noise", ranked.may_be_noise || !ranked.range_known},
                      {"range_known", ranked.range_known}};
  if (ranked.cost) {
    json["value_ns"] = ranked.cost->value_ns;
    json["low_ns"] = number_or_null(ranked.cost->low_ns);
    json["high_ns"] = number_or_null(ranked.cost->high_ns);
    json["enough_samples"] = ranked.cost->enough_samples;
    json["pass_count"] = ranked.cost->pass_count;
    if (answer.metric == CostMetric::WallPerStep) {
      json["added_ns"] = ranked.cost->added_ns;
      json["lost_low_ns"] = ranked.cost->lost_low_ns;
      json["lost_high_ns"] = ranked.cost->lost_high_ns;
    }
    json["dear_pass_count"] = ranked.cost->dear_pass_count;
  }
  return json;
}

OrderedJson ranked_list(const std::vector<RankedCell>& cells, const Answer& answer) {
  OrderedJson list = OrderedJson::array();
  for (const RankedCell& one : cells) list.push_back(ranked_json(one, answer));
  return list;
}

OrderedJson ids_of(const std::vector<const CellResult*>& cells) {
  OrderedJson list = OrderedJson::array();
  for (const CellResult* cell : cells) list.push_back(cell->key.id());
  return list;
}

OrderedJson experiment_json(const CellGroup& group) {
  const Answer answer = find_answer(group);
  const TextStyle style = terminal_style();
  const CostWords words = cost_words(answer.metric);
  const RankedCell* rescuer = answer.rescuer();
  const auto bytes = capacity_bytes(group);
  return {{"title", group_title(group, style)},
          {"capacity_bytes", bytes ? OrderedJson(*bytes) : OrderedJson(nullptr)},
          {"verdict", to_string(answer.verdict)},
          {"sentence", answer_sentence(group, answer, style)},
          {"lines", answer_lines(group, answer, style)},
          {"paste", rescuer == nullptr ? "" : line_to_paste(rescuer->cell->key)},
          {"metric", {{"name", words.name}, {"field", words.field}, {"per", words.per}}},
          {"baseline",
           answer.baseline == nullptr
               ? OrderedJson(nullptr)
               : ranked_json({.cell = answer.baseline, .cost = answer.baseline_cost}, answer)},
          {"settable", ranked_list(answer.settable, answer)},
          {"others", ranked_list(answer.others, answer)},
          {"with_oom", ids_of(answer.with_oom)},
          {"not_measured", ids_of(answer.not_measured)},
          {"needed_bytes", answer.needed_bytes},
          {"cells", ids_of(group.cells)}};
}

bool is_shown(const std::vector<bool>& shown, std::size_t index) {
  return shown.empty() || shown[index];
}

// Every shown cell's outcome in one word, and how it failed.
OrderedJson outcomes_json(std::span<const CellResult> cells, const std::vector<bool>& shown) {
  OrderedJson outcomes = OrderedJson::object();
  for (std::size_t index = 0; index < cells.size(); ++index) {
    if (!is_shown(shown, index)) continue;
    const CellResult& cell = cells[index];
    const Outcome outcome = outcome_of(cell);
    outcomes[cell.key.id()] = {to_string(outcome),
                               outcome == Outcome::Oom ? failure_text(cell) : std::string()};
  }
  return outcomes;
}

// An experiment whose cells are counted, and not shown.
OrderedJson other_json(const CellGroup& group) {
  const Answer answer = find_answer(group);
  const TextStyle style = terminal_style();
  OrderedJson cells = OrderedJson::array();
  for (const CellResult* cell : group.cells) {
    cells.push_back({{"allocator", cell->key.allocator},
                     {"conf", cell->key.conf},
                     {"status", to_string(cell->status)},
                     {"outcome", to_string(outcome_of(*cell))},
                     {"warnings", cell->warnings}});
  }
  return {{"title", group_title(group, style)},
          {"verdict", to_string(answer.verdict)},
          {"sentence", answer_sentence(group, answer, style)},
          {"cells", cells}};
}

void add_columns(std::span<const CellResult> cells, const std::vector<bool>& shown,
                 const Columns& columns, OrderedJson* headings, OrderedJson* rows) {
  for (const Column& column : columns.headings) {
    headings->push_back({{"group", column.group}, {"name", column.name}, {"unit", column.unit}});
  }
  for (std::size_t row = 0; !columns.headings.empty() && row < cells.size(); ++row) {
    if (!is_shown(shown, row)) continue;
    OrderedJson& values = (*rows)[cells[row].key.id()];
    for (const std::string& value : columns.rows[row]) values.push_back(value);
  }
}

}  // namespace

std::vector<bool> shown_cells(std::span<const CellResult> cells, std::size_t cell_count_max) {
  if (cells.size() <= cell_count_max) return std::vector<bool>(cells.size(), true);
  std::vector<CellGroup> groups = group_cells(cells);
  std::ranges::stable_sort(groups, {}, [](const CellGroup& group) {
    return find_answer(group).verdict == AnswerVerdict::Served;
  });
  std::vector<bool> shown(cells.size(), false);
  std::size_t count = 0;
  for (const CellGroup& group : groups) {
    if (count + group.cells.size() > cell_count_max) break;
    count += group.cells.size();
    for (const CellResult* cell : group.cells) {
      shown[static_cast<std::size_t>(cell - cells.data())] = true;
    }
  }
  return shown;
}

nlohmann::ordered_json answers_json(std::span<const CellResult> cells,
                                    const std::vector<bool>& shown) {
  const RunAnswer whole = run_answer(cells, terminal_style());
  OrderedJson experiments = OrderedJson::array();
  OrderedJson others = OrderedJson::array();
  for (const CellGroup& group : group_cells(cells)) {
    if (is_shown(shown, static_cast<std::size_t>(group.cells.front() - cells.data()))) {
      experiments.push_back(experiment_json(group));
    } else {
      others.push_back(other_json(group));
    }
  }
  return {{"sentence", whole.sentence}, {"paste", whole.paste},
          {"legend", answer_legend()},  {"outcomes", outcomes_json(cells, shown)},
          {"experiments", experiments}, {"others", others}};
}

nlohmann::ordered_json columns_json(std::span<const CellResult> cells,
                                    const std::vector<bool>& shown) {
  OrderedJson headings = OrderedJson::array();
  OrderedJson rows = OrderedJson::object();
  add_columns(cells, shown, make_columns(cells), &headings, &rows);
  add_columns(cells, shown, make_request_columns(cells), &headings, &rows);
  return {{"headings", headings}, {"rows", rows}};
}

}  // namespace allocmark

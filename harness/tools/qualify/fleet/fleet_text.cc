// What became of all nodes, as text (fleet.h).
#include "harness/tools/qualify/fleet/fleet.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "results/columns/text.h"

namespace allocmark::fleet {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<Action, 5> kActions = {Action::Drain, Action::Look, Action::Retry,
                                            Action::Watch, Action::Use};
constexpr std::size_t kOutliersShownMax = 3;

std::string row_text(const NodeRow& row) {
  std::string text =
      fmt::format("{:<5}  {:<4}  {:<10}  {}: {}\n", to_string(row.action), to_string(row.verdict),
                  to_string(row.status), printable(row.name), printable(row.reason));
  if (!row.clock.empty() && row.reason != row.clock) {
    text += fmt::format("       {}\n", printable(row.clock));
  }
  for (std::size_t i = 0; i < std::min(row.outliers.size(), kOutliersShownMax); ++i) {
    const Outlier& outlier = row.outliers[i];
    text += fmt::format("       {} {}: {:.2f} times the median of its kind, z {:.1f}: {}\n",
                        printable(outlier.gpu), printable(outlier.measure), outlier.factor,
                        outlier.z, to_string(outlier.verdict));
  }
  if (row.outliers.size() > kOutliersShownMax) {
    text += fmt::format("       and {} more\n", row.outliers.size() - kOutliersShownMax);
  }
  return text;
}

std::size_t count_of(const Fleet& fleet, Action action) {
  return static_cast<std::size_t>(
      std::ranges::count_if(fleet.rows, [&](const NodeRow& row) { return row.action == action; }));
}

Json to_json(const Outlier& outlier) {
  return {{"gpu", outlier.gpu},
          {"measure", outlier.measure},
          {"value", outlier.value},
          {"median", outlier.median},
          {"factor", outlier.factor},
          {"z", outlier.z},
          {"verdict", to_string(outlier.verdict)}};
}

Json to_json(const NodeRow& row) {
  Json outliers = Json::array();
  for (const Outlier& outlier : row.outliers) outliers.push_back(to_json(outlier));
  Json gpus = Json::array();
  if (row.report) {
    for (const qualify::GpuReport& gpu : row.report->gpus) {
      gpus.push_back({{"gpu", gpu.facts.label},
                      {"uuid", gpu.facts.uuid},
                      {"pci_bus_id", gpu.facts.pci_bus_id},
                      {"serial", gpu.facts.serial},
                      {"verdict", to_string(gpu.verdict)}});
    }
  }
  return {{"node", row.name},
          {"status", to_string(row.status)},
          {"verdict", to_string(row.verdict)},
          {"action", to_string(row.action)},
          {"reason", row.reason},
          {"clock", row.clock},
          {"path", row.path},
          {"started_utc", row.report ? row.report->started_utc : ""},
          {"gpus", gpus},
          {"outliers", outliers}};
}

}  // namespace

std::string render_fleet_table(const Fleet& fleet) {
  std::string text;
  for (const Action action : kActions) {
    for (const NodeRow& row : fleet.rows) {
      const bool is_plain = action == Action::Use && row.status == NodeStatus::Judged;
      if (row.action == action && !is_plain) text += row_text(row);
    }
  }
  if (!text.empty()) text += "\n";
  for (const Kind& kind : fleet.kinds) {
    text += fmt::format(
        "{} in {}, driver {}, level {}: {} GPUs of {} nodes, {}\n", printable(kind.key.model),
        printable(kind.key.machine), printable(kind.key.driver), printable(kind.key.level),
        kind.gpu_count, kind.node_count,
        kind.is_compared ? fmt::format("compared by {} measures", kind.measure_count)
                         : std::string("too few to be compared"));
  }
  text += fmt::format("outliers: {}\n\n{} nodes:", limits_text(), fleet.rows.size());
  for (const Action action : kActions) {
    text += fmt::format(" {} {}{}", count_of(fleet, action), to_string(action),
                        action == kActions.back() ? "\n" : ",");
  }
  return text;
}

std::string render_fleet_json(const Fleet& fleet) {
  Json kinds = Json::array();
  for (const Kind& kind : fleet.kinds) {
    kinds.push_back({{"model", kind.key.model},
                     {"machine", kind.key.machine},
                     {"driver", kind.key.driver},
                     {"level", kind.key.level},
                     {"gpu_count", kind.gpu_count},
                     {"node_count", kind.node_count},
                     {"measure_count", kind.measure_count},
                     {"compared", kind.is_compared}});
  }
  Json nodes = Json::array();
  Json drain = Json::array();
  for (const NodeRow& row : fleet.rows) {
    nodes.push_back(to_json(row));
    if (row.action == Action::Drain) {
      drain.push_back({{"node", row.name}, {"reason", row.reason}});
    }
  }
  const Json json{{"kind", "fleet"},
                  {"schema_version", "1.0.0"},
                  {"exit_code", static_cast<int>(fleet_exit_code(fleet))},
                  {"outlier_limits", limits_text()},
                  {"drain", drain},
                  {"kinds", kinds},
                  {"nodes", nodes}};
  return json_text(json, 1) + "\n";
}

std::string render_names(const Fleet& fleet, Action action) {
  std::string text;
  for (const NodeRow& row : fleet.rows) {
    if (row.action == action) text += printable(row.name) + "\n";
  }
  return text;
}

ExitCode fleet_exit_code(const Fleet& fleet) {
  if (count_of(fleet, Action::Drain) > 0) return ExitCode::Regression;
  const std::size_t without = count_of(fleet, Action::Retry) + count_of(fleet, Action::Look);
  return without > 0 ? ExitCode::CellsIncomplete : ExitCode::Pass;
}

}  // namespace allocmark::fleet

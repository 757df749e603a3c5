// See spread.h.
#include "harness/tools/qualify/spread.h"

#include <cmath>

#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/json_text.h"
#include "harness/shipped_spreads.h"

namespace allocmark::qualify {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char* kKind = "qualification_baseline";
constexpr const char* kVersion = "1.0.0";

SpreadRow read_row(const OrderedJson& json) {
  SpreadRow row{.median_ns = json.at("median_ns").get<double>(),
                .slowest_ns = json.at("slowest_ns").get<double>(),
                .machine_count = json.at("machine_count").get<std::uint64_t>()};
  if (!(row.median_ns > 0) || !(row.slowest_ns >= row.median_ns)) {
    throw std::out_of_range("0 < median_ns <= slowest_ns does not hold in " + json_text(json));
  }
  return row;
}

Spread read_spread(const OrderedJson& json) {
  Spread spread{.gpu_name = json.at("gpu_name").get<std::string>(),
                .machine_type = json.at("machine_type").get<std::string>(),
                .driver_version = json.at("driver_version").get<std::string>(),
                .machine_count = json.at("machine_count").get<std::uint64_t>(),
                .memory_bytes = json.at("memory_bytes").get<std::uint64_t>()};
  for (const auto& [name, row] : json.at("figures").items()) spread.rows[name] = read_row(row);
  return spread;
}

// How much of the machine the spread knows; nothing where it is of another.
std::optional<int> nearness(const Spread& spread, const Spread& machine) {
  if (spread.gpu_name != machine.gpu_name) return std::nullopt;
  const bool same_type = spread.machine_type == machine.machine_type;
  const bool same_driver = spread.driver_version == machine.driver_version;
  const bool any_type = spread.machine_type.empty();
  const bool any_driver = spread.driver_version.empty();
  if (!(same_type || any_type) || !(same_driver || any_driver)) return std::nullopt;
  return (any_type ? 0 : 2) + (any_driver ? 0 : 1);
}

}  // namespace

std::string render_spreads(const std::vector<Spread>& spreads) {
  OrderedJson list = OrderedJson::array();
  for (const Spread& spread : spreads) {
    OrderedJson figures = OrderedJson::object();
    for (const auto& [name, row] : spread.rows) {
      figures[name] = {{"median_ns", std::round(row.median_ns)},
                       {"slowest_ns", std::round(row.slowest_ns)},
                       {"machine_count", row.machine_count}};
    }
    list.push_back({{"gpu_name", spread.gpu_name},
                    {"machine_type", spread.machine_type},
                    {"driver_version", spread.driver_version},
                    {"machine_count", spread.machine_count},
                    {"memory_bytes", spread.memory_bytes},
                    {"figures", figures}});
  }
  const OrderedJson json{{"kind", kKind}, {"schema_version", kVersion}, {"baselines", list}};
  return json_text(json, 1) + "\n";
}

bool is_spread_file(std::string_view text) {
  const OrderedJson json = parse_ordered_json(text);
  return json.is_object() && json.value("kind", OrderedJson()) == OrderedJson(kKind);
}

std::vector<Spread> spreads_from_json(std::string_view text, const std::string& where) {
  try {
    const OrderedJson json = parse_ordered_json(text);
    if (json.at("schema_version").get<std::string>().substr(0, 2) != "1.") {
      throw std::out_of_range("schema_version " + json_text(json.at("schema_version")));
    }
    std::vector<Spread> spreads;
    for (const OrderedJson& item : json.at("baselines")) spreads.push_back(read_spread(item));
    return spreads;
  } catch (const std::exception& error) {
    throw UsageError({.what = "this is no baseline of many machines, or it is damaged",
                      .where = where,
                      .wanted = "what 'allocmark merge --baseline' writes",
                      .got = json_reason(error),
                      .next = "make it again: allocmark merge DIR --baseline FILE"});
  }
}

std::vector<Spread> shipped_spreads() { return spreads_from_json(kShippedSpreads, "spreads.json"); }

std::optional<Spread> choose_spread(const std::vector<Spread>& spreads, const Spread& machine) {
  const Spread* best = nullptr;
  int best_nearness = -1;
  for (const Spread& spread : spreads) {
    const std::optional<int> near = nearness(spread, machine);
    if (!near || *near <= best_nearness) continue;
    best = &spread;
    best_nearness = *near;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

}  // namespace allocmark::qualify

// interleaved.json and rounds.jsonl, written and read.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "results/cell_summary.h"
#include "results/compare/interleaved.h"
#include "results/json.h"
#include "results/run_file.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& where, std::string what, std::string got) {
  throw UsageError({.what = std::move(what),
                    .where = where,
                    .wanted = "what 'allocmark run --ab' or 'compare --confirm' writes",
                    .got = std::move(got),
                    .next = "give the folder of an interleaved run, or run it again"});
}

OrderedJson parsed(std::string_view text, const std::string& where) {
  std::string problem;
  OrderedJson json = parse_ordered_json(text, &problem);
  if (json.is_discarded()) refuse(where, "this is no whole JSON document", problem);
  return json;
}

// A plan or round of another MAJOR version means something else.
void check_version(const OrderedJson& json, const std::string& where) {
  const std::string version = json.at("schema_version").get<std::string>();
  const std::string ours(kSchemaVersion);
  if (version.substr(0, version.find('.')) != ours.substr(0, ours.find('.'))) {
    refuse(where, "the interleaved run has another schema version", version);
  }
}

RoundResult round_from_line(std::string_view line, const std::string& where) {
  try {
    const OrderedJson json = parsed(line, where);
    if (json.at("kind") != "round")
      refuse(where, "the line is of another kind", json_text(json.at("kind")));
    check_version(json, where);
    RoundResult result{.round = json.at("round").get<std::uint32_t>(),
                       .side = json.at("side").get<std::uint32_t>(),
                       .place = json.at("place").get<std::uint64_t>(),
                       .in_turns = json.value("in_turns", false)};
    if (result.side >= kSideCount)
      refuse(where, "there are two sides, 0 and 1", json_text(json.at("side")));
    result.cell = cell_result_from_json(json_text(json.at("cell")), where);
    return result;
  } catch (const OrderedJson::exception& error) {
    refuse(where, "the line is no round of an interleaved run", json_reason(error));
  }
}

}  // namespace

std::string to_json(const InterleavedPlan& plan) {
  OrderedJson sides = OrderedJson::array();
  for (const InterleavedSide& side : plan.sides) {
    sides.push_back(
        {{"label", side.label}, {"text", side.text}, {"program_path", side.program_path}});
  }
  OrderedJson cells = OrderedJson::array();
  for (const InterleavedCell& cell : plan.cells) {
    cells.push_back({{"base", parse_ordered_json(to_json_line(cell.base))},
                     {"new", parse_ordered_json(to_json_line(cell.now))},
                     {"round_count_max", cell.round_count_max}});
  }
  const OrderedJson json = {{"kind", "interleaved"},
                            {"schema_version", kSchemaVersion},
                            {"sides", sides},
                            {"order_seed", plan.order_seed},
                            {"pass_count", plan.pass_count},
                            {"pass_count_max", plan.pass_count_max},
                            {"turns_by_pass", plan.turns_by_pass},
                            {"round_count", plan.round_count},
                            {"round_count_max", plan.round_count_max},
                            {"cells", cells}};
  return json_text(json, 1) + "\n";
}

InterleavedPlan interleaved_plan_from_json(const std::string& text, const std::string& where) {
  try {
    const OrderedJson json = parsed(text, where);
    if (json.at("kind") != "interleaved")
      refuse(where, "this is no interleaved run", json_text(json.at("kind")));
    check_version(json, where);
    InterleavedPlan plan;
    if (json.at("sides").size() != kSideCount)
      refuse(where, "there must be two sides", json_text(json.at("sides")));
    for (std::size_t i = 0; i < kSideCount; ++i) {
      const OrderedJson& side = json.at("sides").at(i);
      plan.sides.at(i) = {.label = side.at("label").get<std::string>(),
                          .text = side.at("text").get<std::string>(),
                          .program_path = side.at("program_path").get<std::string>()};
    }
    json.at("order_seed").get_to(plan.order_seed);
    json.at("pass_count").get_to(plan.pass_count);
    plan.pass_count_max = json.value("pass_count_max", plan.pass_count);
    plan.turns_by_pass = json.value("turns_by_pass", false);
    json.at("round_count").get_to(plan.round_count);
    json.at("round_count_max").get_to(plan.round_count_max);
    for (const OrderedJson& cell : json.at("cells")) {
      plan.cells.push_back({.base = cell_key_from_json(json_text(cell.at("base")), where),
                            .now = cell_key_from_json(json_text(cell.at("new")), where),
                            .round_count_max = cell.at("round_count_max").get<std::uint32_t>()});
    }
    return plan;
  } catch (const OrderedJson::exception& error) {
    refuse(where, "this is no plan of an interleaved run", json_reason(error));
  }
}

std::string first_differences_json(const std::map<std::size_t, std::string>& first_differences) {
  OrderedJson cells = OrderedJson::array();
  for (const auto& [index, text] : first_differences) {
    cells.push_back({{"cell_index", index}, {"first_difference", text}});
  }
  const OrderedJson json = {
      {"kind", "placement_differences"}, {"schema_version", kSchemaVersion}, {"cells", cells}};
  return json_text(json, 1) + "\n";
}

std::map<std::size_t, std::string> first_differences_from_json(const std::string& text,
                                                               const std::string& where) {
  try {
    const OrderedJson json = parsed(text, where);
    if (json.at("kind") != "placement_differences")
      refuse(where, "these are no differences of placements", json_text(json.at("kind")));
    std::map<std::size_t, std::string> found;
    for (const OrderedJson& cell : json.at("cells")) {
      found[cell.at("cell_index").get<std::size_t>()] =
          cell.at("first_difference").get<std::string>();
    }
    return found;
  } catch (const OrderedJson::exception& error) {
    refuse(where, "these are no differences of placements", json_reason(error));
  }
}

std::string to_json_line(const RoundResult& result) {
  const OrderedJson json = {{"kind", "round"},
                            {"schema_version", kSchemaVersion},
                            {"round", result.round},
                            {"side", result.side},
                            {"place", result.place},
                            {"in_turns", result.in_turns},
                            {"cell", parse_ordered_json(to_json_line(result.cell))}};
  return json_text(json);
}

void read_rounds(const StoredText& text, const std::string& where, InterleavedRun* run) {
  struct State {
    std::vector<LinePlace> places;
    std::string line;
    CellResult cell;
  };
  const auto state = std::make_shared<State>();
  run->rounds.clear();
  run->torn = false;
  LinePlace place;
  text.each_line(kLineBytesMax, [&](std::string_view line) {
    ++place.number;
    place.size_bytes = line.size();
    const bool ended = line.ends_with('\n');
    if (ended) line.remove_suffix(1);
    run->torn = !ended && !json_line_kind(line);
    if (!run->torn) {
      run->rounds.push_back(round_from_line(line, fmt::format("{}:{}", where, place.number)));
      summarize(&run->rounds.back().cell);
      state->places.push_back(place);
    }
    place.begin_bytes += place.size_bytes;
  });
  run->whole = {.count = state->places.size(),
                .whole = [state, text, where](std::size_t index) -> const CellResult& {
                  const LinePlace& at = state->places.at(index);
                  state->line.resize(at.size_bytes);
                  state->line.resize(text.read(at.begin_bytes, state->line));
                  state->cell =
                      round_from_line(state->line, fmt::format("{}:{}", where, at.number)).cell;
                  return state->cell;
                }};
}

}  // namespace allocmark

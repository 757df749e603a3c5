// 'allocmark list': what can be named on the command line, one line each.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/card_names.h"
#include "harness/core/device/cards.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/suites.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

struct ListCommand {
  std::string format = "table";
  std::string what;  // "workloads", "allocators", "scenarios", "devices", "suites"; empty = all
};

struct ListRow {
  std::string name;
  std::string text;
};

struct Kind {
  std::string title;  // "scenarios, folklore"
  std::vector<ListRow> rows;
};

void print_rows(const Kind& kind) {
  const auto& [title, rows] = kind;
  std::size_t width = 0;
  for (const ListRow& row : rows) {
    width = std::max(width, row.name.size());
  }
  std::string text = title + ":\n";
  for (const ListRow& row : rows) text += fmt::format("  {:<{}}  {}\n", row.name, width, row.text);
  print_fitted(stdout, text);
}

// One table for each folder.
std::vector<Kind> scenario_kinds() {
  std::vector<Kind> kinds;
  for (const WorkloadListing& listing : list_scenarios()) {
    std::string title = fmt::format("scenarios, {}", listing.kind);
    if (kinds.empty() || kinds.back().title != title) kinds.push_back({std::move(title), {}});
    kinds.back().rows.push_back({listing.name, listing.summary});
  }
  return kinds;
}

std::vector<ListRow> workload_rows(const std::vector<WorkloadListing>& listings) {
  std::vector<ListRow> rows;
  for (const WorkloadListing& listing : listings) {
    rows.push_back({listing.name, fmt::format("({}) {}", listing.kind, listing.summary)});
  }
  return rows;
}

std::vector<ListRow> allocator_rows() {
  std::vector<ListRow> rows;
  for (const BackendEntry& entry : backend_registry()) {
    std::string text(entry.summary);
    if (!entry.conf_keys.empty()) {
      text += fmt::format("; keys: {}", fmt::join(entry.conf_keys, ", "));
    }
    const std::string reason = entry.unavailable_reason();
    if (!reason.empty()) {
      text += fmt::format(" (cannot run here: {})", reason);
    }
    rows.push_back({std::string(entry.name), text});
  }
  return rows;
}

// The releases of an allocator differ in little, so they share the keys of their allocator.
std::vector<ListRow> release_rows() {
  std::vector<ListRow> rows;
  for (const BackendEntry& entry : release_registry()) {
    const std::string reason = entry.unavailable_reason();
    rows.push_back({entry.name, reason.empty() ? entry.summary
                                               : fmt::format("{} (cannot run here: {})",
                                                             entry.summary, reason)});
  }
  return rows;
}

std::vector<ListRow> device_rows() {
  std::vector<ListRow> rows;
  const std::string program_path = own_program_path();
  std::vector<std::string> devices = simulated_devices();
  devices.emplace_back("cuda:0");
  for (const std::string& device : devices) {
    const DeviceAnswer answer = describe_device(device, program_path);
    rows.push_back(
        {device, answer.failure.empty()
                     ? fmt::format("{}{}, {:.1f} GiB", is_simulated(device) ? "simulated " : "",
                                   answer.facts.gpu_name,
                                   static_cast<double>(answer.facts.gpu_memory_bytes) /
                                       (1024.0 * 1024.0 * 1024.0))
                     : fmt::format("does not work here: {}", answer.failure)});
  }
  return rows;
}

// "165 Tflop/s, 1008 GB/s, ": what servers are timed by.
std::string speed_text(const CardSpeed& speed) {
  if (speed.tflops == 0) return "";
  return fmt::format("{} Tflop/s, {} GB/s, ", speed.tflops, speed.gb_per_second);
}

std::vector<ListRow> card_rows() {
  std::vector<ListRow> rows;
  for (const std::string& device : simulated_devices()) {
    const DeviceAnswer answer = describe_device(device, own_program_path());
    if (!answer.failure.empty()) continue;  // `list devices` says why
    const std::optional<ServingCard> figures = serving_card_of(device, answer.facts.gpu_name);
    const CardSpeed speed =
        figures ? CardSpeed{figures->tflops, figures->gb_per_second} : CardSpeed{};
    rows.push_back(
        {device, fmt::format("{}, {}, {}times measured on one", answer.facts.gpu_name,
                             format_bytes(answer.facts.gpu_memory_bytes), speed_text(speed))});
  }
  for (const Card& card : known_cards()) {
    rows.push_back({"sim:" + card.name, fmt::format("{}, {}, {}times borrowed ({})", card.gpu_name,
                                                    format_bytes(card.total_bytes),
                                                    speed_text(card.speed), card.source)});
  }
  return rows;
}

std::vector<ListRow> suite_rows() {
  std::vector<ListRow> rows;
  for (const Suite& suite : suites()) {
    rows.push_back({std::string(suite.name), std::string(suite.summary)});
  }
  return rows;
}

void add_list(CLI::App* app, ListCommand* command) {
  app->add_option("what", command->what, "What to list [all]")
      ->check(CLI::IsMember({"workloads", "allocators", "scenarios", "devices", "cards", "suites"}))
      ->type_name("KIND");
  add_format(app, &command->format, "table or json (one document)", {"table", "json"});
}

// {"workloads": [{"name": ..., "summary": ...}], ...}; a scenario's folder is its kind.
void print_json(const std::vector<Kind>& kinds) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Kind& kind : kinds) {
    const std::size_t comma = kind.title.find(", ");
    nlohmann::ordered_json& list = json[kind.title.substr(0, comma)];
    for (const ListRow& row : kind.rows) {
      nlohmann::ordered_json entry = {{"name", row.name}, {"summary", row.text}};
      if (comma != std::string::npos) entry["folder"] = kind.title.substr(comma + 2);
      list.push_back(std::move(entry));
    }
  }
  fmt::print("{}\n", json_text(json, 1));
}

ExitCode run_list(const ListCommand& command) {
  const auto wanted = [&](std::string_view what) {
    return command.what.empty() || command.what == what;
  };
  std::vector<Kind> kinds;
  if (wanted("workloads")) kinds.push_back({"workloads", workload_rows(list_workloads())});
  if (wanted("scenarios")) {
    for (Kind& kind : scenario_kinds()) kinds.push_back(std::move(kind));
  }
  if (wanted("allocators")) kinds.push_back({"allocators", allocator_rows()});
  if (wanted("allocators")) kinds.push_back({"releases", release_rows()});
  if (wanted("suites")) kinds.push_back({"suites", suite_rows()});
  if (wanted("devices")) kinds.push_back({"devices", device_rows()});
  if (wanted("cards")) kinds.push_back({"cards", card_rows()});
  if (command.format == "json") {
    print_json(kinds);
  } else {
    for (const Kind& kind : kinds) print_rows(kind);
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kListCommand;
constinit const CommandEntry kListCommand{
    "list", "List workloads, allocators, scenarios, devices, cards and suites",
    [](CLI::App* app) { return bind_command(app, add_list, run_list); }};

}  // namespace allocmark

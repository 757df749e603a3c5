// 'allocmark conformance PLUGIN' says which rules of an allocator a plugin keeps. It does not
// measure.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/plan.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/conformance/conduct.h"
#include "harness/tools/conformance/race_detector.h"
#include "results/json.h"

namespace allocmark {
namespace {

using conformance::Finding;

struct ConformanceCommand {
  std::string plugin;
  std::string device = "sim:h200";
  double timeout_s = 20;
  std::string format = "table";
  std::vector<std::string> rules;
  std::vector<std::string> argv;  // of the program, for starting it again under a race detector
};

void add_conformance(CLI::App* app, ConformanceCommand* command) {
  app->add_option("plugin", command->plugin,
                  "The plugin: PATH.so, or pluggable:PATH.so[,MALLOC,FREE][,KEY:FUNCTION...] with "
                  "the keys record_stream, trim and init")
      ->required()
      ->type_name("PLUGIN");
  app->add_option("-d,--device", command->device, "A simulated device, sim:NAME")
      ->capture_default_str()
      ->type_name("D");
  app->add_option("--timeout", command->timeout_s, "Seconds for each rule, 1 to 600")
      ->check(CLI::Range(1.0, 600.0))
      ->capture_default_str()
      ->type_name("S");
  std::vector<std::string> names;
  for (const conformance::Rule& rule : conformance::all_rules()) names.emplace_back(rule.name);
  app->add_option("--rule", command->rules, "Only these rules, by name")
      ->check(CLI::IsMember(names))
      ->type_name("R");
  app->add_option("--format", command->format, "table or json (one document)")
      ->check(CLI::IsMember({"table", "json"}))
      ->capture_default_str()
      ->type_name("F");
}

constexpr std::string_view kPluggable = "pluggable:";

// The file that the plugin's text names; empty where it names none in front.
std::string library_of(std::string_view plugin) {
  if (plugin.starts_with(kPluggable)) plugin.remove_prefix(kPluggable.size());
  const std::string path(plugin.substr(0, plugin.find(',')));
  if (path.find(':') != std::string::npos) return {};
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return path;
  throw FileError({.what = "there is no such plugin",
                   .where = path,
                   .wanted = "a shared library",
                   .got = std::filesystem::exists(path, error) ? "not a file" : "no such file",
                   .next = "name it as PATH.so or pluggable:PATH.so,MALLOC,FREE"});
}

// The config string of the backend pluggable, as 'run --allocator' reads it.
std::string conf_of(const std::string& plugin) {
  const bool named = plugin.starts_with(kPluggable);
  const std::string text = named ? plugin : std::string(kPluggable) + plugin;
  const Plan plan = make_plan({.workloads = {{.text = "churn", .recorded = true}},
                               .allocators = {text},
                               .confs = {},
                               .capacities = {"unlimited"},
                               .seeds = {1},
                               .device = {}},
                              known_allocators());
  return plan.cells.front().conf_text();
}

std::string_view word_of(conformance::Outcome outcome) {
  switch (outcome) {
    case conformance::Outcome::Pass:
      return "pass";
    case conformance::Outcome::Fail:
      return "FAIL";
    case conformance::Outcome::NotApplicable:
      return "n/a";
  }
  return "FAIL";
}

std::size_t count_of(const std::vector<Finding>& findings, conformance::Outcome outcome) {
  return static_cast<std::size_t>(std::ranges::count(
      findings, outcome, [](const Finding& finding) { return finding.answer.outcome; }));
}

// Functions that the plugin called and simcuda lacks, of all rules.
std::set<std::string> missing_calls(const std::vector<Finding>& findings) {
  std::set<std::string> names;
  for (const Finding& finding : findings) {
    std::string_view rest = finding.answer.missing_calls;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      names.emplace(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return names;
}

// The words below the sentence, as wide as the output is.
std::string indented(std::string_view text) {
  constexpr std::size_t kIndent = 23;
  const std::size_t width = std::max(output_width(stdout), kIndent + 30) - kIndent;
  std::string result;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > width) {
      end = text.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    }
    result += fmt::format("{:{}}{}\n", "", kIndent, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

void print_table(const ConformanceCommand& command, const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    fmt::print("{:<4}  {:<15}  {}\n{}", word_of(finding.answer.outcome), finding.rule->name,
               finding.rule->sentence, indented(finding.answer.seen));
  }
  fmt::print("\n{}: {} rules kept, {} broken, {} not applicable\n", valid_utf8(command.plugin),
             count_of(findings, conformance::Outcome::Pass),
             count_of(findings, conformance::Outcome::Fail),
             count_of(findings, conformance::Outcome::NotApplicable));
}

void print_json(const ConformanceCommand& command, const std::vector<Finding>& findings,
                const std::set<std::string>& missing) {
  nlohmann::ordered_json json = {{"plugin", valid_utf8(command.plugin)},
                                 {"device", command.device}};
  for (const Finding& finding : findings) {
    std::string word(word_of(finding.answer.outcome));
    if (word == "FAIL") word = "fail";
    json["rules"].push_back({{"name", finding.rule->name},
                             {"sentence", finding.rule->sentence},
                             {"outcome", word},
                             {"seen", finding.answer.seen}});
  }
  json["missing_calls"] = missing;
  fmt::print("{}\n", json_text(json, 1));
}

ExitCode conformance_command(const ConformanceCommand& command) {
  check_device(command.device);
  if (!is_simulated(command.device)) {
    throw UsageError({.what = "a plugin's rules are checked on a simulated device",
                      .where = "--device",
                      .wanted = "sim:NAME",
                      .got = command.device,
                      .next = "on a GPU: allocmark run --verify whole"});
  }
  if (const std::string library = library_of(command.plugin); !library.empty()) {
    conformance::ensure_race_detector(library, command.argv);
  }
  const std::vector<Finding> findings = conformance::conduct({.program_path = own_program_path(),
                                                              .device = command.device,
                                                              .conf = conf_of(command.plugin),
                                                              .limit_s = command.timeout_s,
                                                              .rules = command.rules});
  const std::set<std::string> missing = missing_calls(findings);
  if (command.format == "json") {
    print_json(command, findings, missing);
  } else {
    print_table(command, findings);
  }
  for (const std::string& name : missing) {
    print_warning(
        fmt::format("warning: it called {}, which simcuda lacks: the call failed "
                    "here and would not on a GPU",
                    name));
  }
  return count_of(findings, conformance::Outcome::Fail) == 0 ? ExitCode::Pass
                                                             : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kConformanceCommand;
constinit const CommandEntry kConformanceCommand{
    "conformance", "Say which rules of an allocator a plugin keeps",
    [](CLI::App* app) { return bind_command(app, add_conformance, conformance_command); }};

}  // namespace allocmark

// 'allocmark conformance PLUGIN' says which rules of an allocator a plugin keeps. It does not
// measure.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/plugins/library_probe.h"
#include "allocators/plugins/pluggable.h"
#include "base/json_text.h"
#include "base/output_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/plan.h"
#include "harness/shell/options.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/conformance/conduct.h"
#include "harness/tools/conformance/race_detector.h"
#include "results/columns/text.h"
#include "results/utf8.h"

namespace allocmark {
namespace {

using conformance::Finding;

struct ConformanceCommand {
  std::string plugin;
  std::string baseline;  // another plugin: rules that it breaks fail nothing; empty = none
  std::vector<std::string> waivers;  // RULE=REASON
  std::string junit;                 // a file; empty = none
  conformance::Setup setup;
  std::string format = "table";
  std::vector<std::string> argv;  // of the program, for starting it again under a race detector
};

void add_conformance(CLI::App* app, ConformanceCommand* command) {
  add_value(app, "plugin", command->plugin, "PLUGIN",
            "The plugin: PATH.so, or pluggable:PATH.so[,MALLOC,FREE][,KEY:FUNCTION...] with "
            "the keys record_stream, trim and init")
      ->required();
  add_default(app, "-d,--device", command->setup.device, "D", "A simulated device, sim:NAME");
  add_default(app, "--timeout", command->setup.limit_s, "S",
              "Seconds for each call of the plugin, 1 to 600; a rule may take six times as long")
      ->check(number_range(1.0, 600.0));
  std::vector<std::string> names;
  for (const conformance::Rule& rule : conformance::all_rules()) names.emplace_back(rule.name);
  add_value(app, "--rule", command->setup.rules, "R", "Only these rules, by name")
      ->check(CLI::IsMember(names));
  add_value(app, "--baseline", command->baseline, "PLUGIN",
            "An older build: only rules that it keeps and the plugin breaks fail, and only "
            "what differs or is not kept is printed");
  add_value(app, "--waive", command->waivers, "RULE=REASON",
            "Rules that may be broken, each as RULE=REASON; the reason is printed");
  add_value(app, "--junit", command->junit, "FILE", "Also write JUnit XML, a test case per rule");
  add_format(app, &command->format, "table or json (one document)", {"table", "json"});
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

// What a finding means for the exit code.
enum class Standing : std::uint8_t { Pass, Fail, Known, Waived, Mended, NotApplicable };
constexpr std::string_view kStandingWords[] = {"pass", "FAIL", "known", "waived", "mended", "n/a"};

struct JudgedRule {
  const Finding* finding = nullptr;
  Standing standing = Standing::Pass;
  std::string note = {};  // beside what was seen
};

std::string_view word_of(Standing standing) {
  return kStandingWords[static_cast<std::size_t>(standing)];
}

// Throws UsageError where a waiver names no rule or no reason.
std::map<std::string, std::string> waivers_of(const ConformanceCommand& command) {
  std::map<std::string, std::string> reasons;
  for (const std::string& waiver : command.waivers) {
    const std::size_t sign = waiver.find('=');
    const std::string rule = waiver.substr(0, sign);
    if (sign == std::string::npos || sign + 1 == waiver.size() ||
        conformance::find_rule(rule) == nullptr) {
      throw UsageError({.what = "this waives no rule",
                        .where = "--waive",
                        .wanted = "RULE=REASON, with a rule as the table names it",
                        .got = waiver,
                        .next = "allocmark conformance PLUGIN lists the rules"});
    }
    reasons[rule] = waiver.substr(sign + 1);
  }
  return reasons;
}

std::vector<JudgedRule> judge(const std::vector<Finding>& findings,
                              const std::vector<Finding>& baseline,
                              const std::map<std::string, std::string>& waivers) {
  using conformance::Outcome;
  std::vector<JudgedRule> judged;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const Outcome outcome = findings[i].answer.outcome;
    const bool base_fails = !baseline.empty() && baseline[i].answer.outcome == Outcome::Fail;
    JudgedRule rule{.finding = &findings[i]};
    if (outcome == Outcome::NotApplicable) rule.standing = Standing::NotApplicable;
    if (outcome == Outcome::Pass && base_fails) rule.standing = Standing::Mended;
    if (outcome == Outcome::Fail) {
      rule.standing = Standing::Fail;
      const auto waiver = waivers.find(std::string(findings[i].rule->name));
      if (waiver != waivers.end()) {
        rule.standing = Standing::Waived;
        rule.note = "waived: " + waiver->second;
      } else if (base_fails) {
        rule.standing = Standing::Known;
        rule.note = "the baseline breaks it, too";
      }
    }
    judged.push_back(std::move(rule));
  }
  return judged;
}

std::size_t count_of(const std::vector<JudgedRule>& rules, Standing standing) {
  return static_cast<std::size_t>(std::ranges::count(rules, standing, &JudgedRule::standing));
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

// Of the word and the name before the sentence.
constexpr std::size_t kNameWidth = 15;

// The words below the sentence, as wide as the output is.
std::string indented(std::string_view text, std::size_t indent) {
  const std::size_t width = std::max(output_width(stdout), indent + 30) - indent;
  std::string result;
  while (!text.empty()) {
    std::size_t end = text.size();
    if (end > width) {
      end = text.rfind(' ', width);
      if (end == std::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    }
    result += fmt::format("{:{}}{}\n", "", indent, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

void print_table(const ConformanceCommand& command, const std::vector<JudgedRule>& rules) {
  std::size_t word_width = word_of(Standing::Pass).size();
  for (const JudgedRule& rule : rules) {
    word_width = std::max(word_width, word_of(rule.standing).size());
  }
  const std::size_t indent = word_width + kNameWidth + 4;
  for (const JudgedRule& rule : rules) {
    if (rule.standing == Standing::Pass && !command.baseline.empty()) continue;
    fmt::print("{:<{}}  {:<{}}  {}\n{}", word_of(rule.standing), word_width,
               rule.finding->rule->name, kNameWidth, rule.finding->rule->sentence,
               indented(rule.finding->answer.seen, indent));
    if (!rule.note.empty()) fmt::print("{}", indented(rule.note, indent));
  }
  fmt::print("\n{}: {} rules kept, {} broken, {} not applicable", valid_utf8(command.plugin),
             count_of(rules, Standing::Pass) + count_of(rules, Standing::Mended),
             count_of(rules, Standing::Fail), count_of(rules, Standing::NotApplicable));
  if (const std::size_t count = count_of(rules, Standing::Known); count > 0) {
    fmt::print(", {} broken as by the baseline", count);
  }
  if (const std::size_t count = count_of(rules, Standing::Waived); count > 0) {
    fmt::print(", {} waived", count);
  }
  fmt::print("\n");
}

void print_json(const ConformanceCommand& command, const std::vector<JudgedRule>& rules,
                const std::set<std::string>& missing) {
  nlohmann::ordered_json json = {{"plugin", valid_utf8(command.plugin)},
                                 {"device", command.setup.device}};
  for (const JudgedRule& rule : rules) {
    std::string word(word_of(rule.standing));
    if (word == "FAIL") word = "fail";
    json["rules"].push_back({{"name", rule.finding->rule->name},
                             {"sentence", rule.finding->rule->sentence},
                             {"outcome", word},
                             {"seen", rule.finding->answer.seen}});
    if (!rule.note.empty()) json["rules"].back()["note"] = rule.note;
  }
  json["missing_calls"] = missing;
  fmt::print("{}\n", json_text(json, 1));
}

// By the strictest schema in use, as comparisons are written.
std::string junit_text(const ConformanceCommand& command, const std::vector<JudgedRule>& rules) {
  std::string cases;
  std::size_t skipped_count = 0;
  for (const JudgedRule& rule : rules) {
    const std::string& seen = rule.finding->answer.seen;
    std::string element;
    if (rule.standing == Standing::Fail) {
      element = fmt::format("<failure message=\"{}\" type=\"broken rule\">{}</failure>",
                            xml_text(seen), xml_text(rule.finding->rule->sentence));
    } else if (rule.standing != Standing::Pass && rule.standing != Standing::Mended) {
      ++skipped_count;
      element = fmt::format("<skipped message=\"{}\">{}</skipped>",
                            xml_text(rule.note.empty() ? seen : rule.note), xml_text(seen));
    }
    cases += fmt::format(
        "  <testcase classname=\"conformance\" name=\"{}\" time=\"0.000\">{}</testcase>\n",
        rule.finding->rule->name, element);
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"allocmark conformance\" "
      "timestamp=\"{:%Y-%m-%dT%H:%M:%S}\" hostname=\"localhost\" tests=\"{}\" failures=\"{}\" "
      "errors=\"0\" skipped=\"{}\" time=\"0.000\">\n  <properties>\n    <property "
      "name=\"plugin\" value=\"{}\"/>\n  </properties>\n{}  <system-out></system-out>\n  "
      "<system-err></system-err>\n</testsuite>\n",
      fmt::gmtime(std::time(nullptr)), rules.size(), count_of(rules, Standing::Fail), skipped_count,
      xml_text(valid_utf8(command.plugin)), cases);
}

// Holds a plugin against the rules that are asked for.
std::vector<Finding> findings_of(const ConformanceCommand& command, const std::string& plugin) {
  (void)library_of(plugin);
  const std::string conf = conf_of(plugin);
  const std::string library = read_pluggable_conf(conf).conf.library;
  if (const auto error = simulated_plugin_error(read_pluggable_conf(conf).conf)) {
    throw UsageError(*error);
  }
  conformance::Setup setup = command.setup;
  setup.conf = conf;
  std::vector<Finding> findings = conformance::conduct(setup);
  const bool serves = std::ranges::none_of(findings, [](const Finding& finding) {
    return finding.rule->name == "serves" && finding.answer.outcome == conformance::Outcome::Fail;
  });
  const std::string carrier = serves ? "" : runtime_carrier_of(library);
  if (!carrier.empty()) throw UsageError(foreign_runtime_error(library, carrier));
  return findings;
}

// What the plugin alone breaks is held against it once more: it may have been the machine.
std::vector<Finding> look_again(ConformanceCommand command, std::vector<Finding> findings,
                                const std::vector<Finding>& baseline) {
  command.setup.rules.clear();
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const bool fails = findings[i].answer.outcome == conformance::Outcome::Fail;
    if (fails && baseline[i].answer.outcome == conformance::Outcome::Pass) {
      command.setup.rules.emplace_back(findings[i].rule->name);
    }
  }
  if (command.setup.rules.empty()) return findings;
  for (const Finding& again : findings_of(command, command.plugin)) {
    const auto first = std::ranges::find(findings, again.rule, &Finding::rule);
    if (again.answer.outcome == conformance::Outcome::Pass) *first = again;
  }
  return findings;
}

ExitCode conformance_command(const ConformanceCommand& command) {
  check_device(command.setup.device);
  if (!is_simulated(command.setup.device)) {
    throw UsageError({.what = "a plugin's rules are checked on a simulated device",
                      .where = "--device",
                      .wanted = "sim:NAME",
                      .got = command.setup.device,
                      .next = "on a GPU: allocmark run --verify whole"});
  }
  if (const std::string library = library_of(command.plugin); !library.empty()) {
    conformance::ensure_race_detector(library, command.argv);
  }
  const std::map<std::string, std::string> waivers = waivers_of(command);
  std::vector<Finding> baseline;
  if (!command.baseline.empty()) baseline = findings_of(command, command.baseline);
  std::vector<Finding> findings = findings_of(command, command.plugin);
  if (!baseline.empty()) findings = look_again(command, std::move(findings), baseline);
  const std::vector<JudgedRule> rules = judge(findings, baseline, waivers);
  const std::set<std::string> missing = missing_calls(findings);
  if (command.format == "json") {
    print_json(command, rules, missing);
  } else {
    print_table(command, rules);
  }
  if (!command.junit.empty()) write_file(command.junit, junit_text(command, rules));
  for (const std::string& name : missing) {
    print_warning(
        fmt::format("warning: it called {}, which simcuda lacks: the call failed "
                    "here and would not on a GPU",
                    name));
  }
  return count_of(rules, Standing::Fail) == 0 ? ExitCode::Pass : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kConformanceCommand;
constinit const CommandEntry kConformanceCommand{
    "conformance", "Say which rules of an allocator a plugin keeps",
    [](CLI::App* app) { return bind_command(app, add_conformance, conformance_command); }};

}  // namespace allocmark

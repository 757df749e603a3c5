// See cell_process.h.
#include "harness/run/cell_process.h"

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/json_text.h"
#include "harness/run/runtime_select.h"
#include "results/json.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// The child's last output, for the end of a reason.
std::string last_words(const ChildOutcome& outcome) {
  const std::string text = quoted_output(outcome);
  return text.empty() ? "; it printed nothing" : text;
}

CellResult without_result(const CellSpec& spec, const ChildOutcome& outcome, CellStatus status,
                          const std::string& reason) {
  CellResult result;
  result.key = spec.key;
  result.status = status;
  result.reason = reason;
  result.wall_s = outcome.wall_s;
  return result;
}

}  // namespace

std::string to_json_line(const CellSpec& spec) {
  const Json json = {{"key", parse_json(to_json_line(spec.key))},
                     {"pass_count", spec.pass_count},
                     {"width_max", spec.width_max},
                     {"pass_count_max", spec.pass_count_max},
                     {"verify", to_string(spec.verify)},
                     {"quiet_cpu", spec.quiet_cpu},
                     {"takes_turns", spec.takes_turns},
                     {"in_rounds", spec.in_rounds},
                     {"host_reference_target_ns", spec.host_target.reference_ns},
                     {"host_clock_target_ns", spec.host_target.clock_ns},
                     {"record", spec.record},
                     {"timeout_s", spec.timeout_s},
                     {"placements_path", spec.placements_path},
                     {"timeline_path", spec.timeline_path}};
  return json_text(json);
}

CellSpec cell_spec_from_json(std::string_view line) {
  try {
    const Json json = parse_json(line);
    CellSpec spec;
    spec.key = cell_key_from_json(json_text(json.at("key")), "the cell's specification");
    json.at("pass_count").get_to(spec.pass_count);
    spec.width_max = json.value("width_max", 0.0);
    spec.pass_count_max = json.value("pass_count_max", 0U);
    spec.verify =
        parse_verify_level(json.at("verify").get<std::string>()).value_or(VerifyLevel::Edges);
    json.at("quiet_cpu").get_to(spec.quiet_cpu);
    spec.takes_turns = json.value("takes_turns", false);
    spec.in_rounds = json.value("in_rounds", false);
    spec.host_target.reference_ns = json.value("host_reference_target_ns", 0.0);
    spec.host_target.clock_ns = json.value("host_clock_target_ns", 0.0);
    json.at("record").get_to(spec.record);
    json.at("timeout_s").get_to(spec.timeout_s);
    json.at("placements_path").get_to(spec.placements_path);
    json.at("timeline_path").get_to(spec.timeline_path);
    return spec;
  } catch (const Json::exception& error) {
    throw UsageError({.what = "this is no specification of a cell",
                      .where = "stdin",
                      .wanted = "the JSON that 'allocmark run' gives to its cells",
                      .got = json_reason(error),
                      .next = "use: allocmark run"});
  }
}

ChildCommand cell_command(const CellSpec& spec, const std::string& program_path) {
  return {.argv = {program_path, "cell", std::to_string(getpid())},
          .environment = environment_with(runtime_environment(spec.key.device, program_path)),
          .input = to_json_line(spec),
          .timeout_s = static_cast<double>(spec.timeout_s),
          .takes_turns = spec.takes_turns || spec.in_rounds};
}

CellResult cell_result(const CellSpec& spec, const ChildOutcome& outcome) {
  if (outcome.timed_out) {
    return without_result(
        spec, outcome, CellStatus::TimedOut,
        fmt::format("ended after {} s (--timeout); a longer limit lets it finish{}", spec.timeout_s,
                    last_words(outcome)));
  }
  if (outcome.signal_number != 0) {
    const bool killed = outcome.signal_number == SIGKILL;
    return without_result(
        spec, outcome, CellStatus::Crashed,
        fmt::format("ended by {}{}{}", signal_name(outcome.signal_number),
                    killed ? ", perhaps because the machine ran out of memory (see dmesg)" : "",
                    last_words(outcome)));
  }
  if (outcome.result.empty() && outcome.exit_code == static_cast<int>(ExitCode::FileAccess)) {
    throw WriteError(
        {.what = "a cell could not write its files",
         .where = spec.timeline_path.empty() ? spec.placements_path : spec.timeline_path,
         .wanted = "a folder that can be written and has room",
         .got = valid_utf8(outcome.stderr_tail),
         .next = "free some space, then: allocmark run --resume"});
  }
  std::string problem = "it wrote none";
  if (!outcome.result.empty()) {
    try {
      const std::size_t end = outcome.result.find('\n');
      CellResult result = cell_result_from_json(outcome.result.substr(0, end), "the cell's result");
      if (outcome.exit_code == 0 && result.key == spec.key) {
        return result;
      }
      problem = "it is another cell's";
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  return without_result(
      spec, outcome, CellStatus::Failed,
      fmt::format("the cell's process ended with exit code {} and no valid result: {}{}",
                  outcome.exit_code, problem, last_words(outcome)));
}

}  // namespace allocmark

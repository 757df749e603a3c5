// See cell_process.h.
#include "harness/run/cell_process.h"

#include <signal.h>
#include <unistd.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
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

// All that a cell is told. What is not named here does not reach the child.
static_assert(field_count<CellSpec>() == 14 && field_count<HostTarget>() == 2);
template <typename Spec, typename Visit>
void visit_fields(Spec& spec, Visit&& visit) {
  visit("key", spec.key);
  visit("pass_count", spec.pass_count);
  visit("width_max", spec.width_max);
  visit("pass_count_max", spec.pass_count_max);
  visit("verify", spec.verify);
  visit("quiet_cpu", spec.quiet_cpu);
  visit("shares_device", spec.shares_device);
  visit("takes_turns", spec.takes_turns);
  visit("in_rounds", spec.in_rounds);
  visit("host_reference_target_ns", spec.host_target.reference_ns);
  visit("host_clock_target_ns", spec.host_target.clock_ns);
  visit("record", spec.record);
  visit("timeout_s", spec.timeout_s);
  visit("placements_path", spec.placements_path);
  visit("timeline_path", spec.timeline_path);
}

Json stored(const CellKey& key) { return parse_json(to_json_line(key)); }
Json stored(VerifyLevel verify) { return to_string(verify); }
template <typename Value>
Json stored(const Value& value) {
  return value;
}

void take(const Json& json, CellKey& key) {
  key = cell_key_from_json(json_text(json), "the cell's specification");
}
void take(const Json& json, VerifyLevel& verify) {
  verify = parse_verify_level(json.get<std::string>()).value_or(VerifyLevel::Edges);
}
template <typename Value>
void take(const Json& json, Value& value) {
  json.get_to(value);
}

}  // namespace

std::string to_json_line(const CellSpec& spec) {
  Json json;
  visit_fields(spec, [&](const char* name, const auto& value) { json[name] = stored(value); });
  return json_text(json);
}

CellSpec cell_spec_from_json(std::string_view line) {
  try {
    const Json json = parse_json(line);
    CellSpec spec;
    visit_fields(spec, [&](const char* name, auto& value) { take(json.at(name), value); });
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

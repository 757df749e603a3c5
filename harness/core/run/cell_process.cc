// See cell_process.h.
#include "harness/core/run/cell_process.h"

#include <signal.h>

#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/field_count.h"
#include "base/json_text.h"
#include "base/own_process.h"
#include "harness/core/measure/host_scale.h"
#include "harness/job/serve.h"
#include "results/json.h"

namespace allocmark {
namespace {

// The child's last output, for the end of a reason.
std::string last_words(const ChildOutcome& outcome) {
  const std::string text = quoted_output(outcome);
  return text.empty() ? "; it printed nothing" : text;
}

// A program of another build may not say them.
constexpr std::string_view kPackedBytes = "packed_bytes";
constexpr std::string_view kTimesHost = "times_host";

// All that a cell is told, by name, as cells of other builds read it.
static_assert(field_count<CellSpec>() == 16 && field_count<HostTarget>() == 2);
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
  visit(kPackedBytes, spec.packed_bytes);
  visit(kTimesHost, spec.times_host);
}

job::Json stored(const CellKey& key) { return parse_json(to_json_line(key)); }
job::Json stored(VerifyLevel verify) { return to_string(verify); }
template <typename Value>
job::Json stored(const Value& value) {
  return job::pack(value);
}

void take(const job::Json& json, CellKey& key) {
  key = cell_key_from_json(json_text(json), "the cell's specification");
}
void take(const job::Json& json, VerifyLevel& verify) {
  verify = parse_verify_level(json.get<std::string>()).value_or(VerifyLevel::Edges);
}
template <typename Value>
void take(const job::Json& json, Value& value) {
  value = job::unpack<Value>(json);
}

void run_one_cell(const CellSpec& spec, const Tell<std::string>& tell) {
  select_device(spec.key.device);
  PassTurns turns(kTurnFd);
  const bool waits = (spec.takes_turns || spec.in_rounds) && turns.connected();
  const auto send = [&](const CellResult& result) { tell(to_json_line(result) + "\n"); };
  send(run_cell(spec, waits ? &turns : nullptr, send));
}

// Answers are the lines of results.
constexpr Job<CellSpec, std::string> kCell{
    .name = "cell", .what = "the cell", .run = run_one_cell, .opens_device = false};

}  // namespace

namespace job {

job::Json Packed<CellSpec>::pack(const CellSpec& spec) {
  job::Json json;
  visit_fields(spec, [&](std::string_view name, const auto& value) { json[name] = stored(value); });
  return json;
}

CellSpec Packed<CellSpec>::unpack(const job::Json& json) {
  CellSpec spec;
  visit_fields(spec, [&](std::string_view name, auto& value) {
    if ((name == kPackedBytes || name == kTimesHost) && !json.contains(name)) return;
    take(json.at(name), value);
  });
  return spec;
}

}  // namespace job

ChildCommand cell_command(const CellSpec& spec, const std::string& program_path,
                          JobEnvironment environment) {
  if (!spec.times_host) environment.push_back(kWarmHostCaches);
  return command_of(kCell, spec,
                    {.program_path = program_path,
                     .device = spec.key.device,
                     .environment = std::move(environment),
                     .timeout_s = static_cast<double>(spec.timeout_s),
                     .takes_turns = spec.takes_turns || spec.in_rounds});
}

CellResult without_result(const CellSpec& spec, std::string reason, CellStatus status,
                          double wall_s) {
  CellResult result;
  result.key = spec.key;
  result.status = status;
  result.reason = std::move(reason);
  result.wall_s = wall_s;
  return result;
}

CellResult cell_result(const CellSpec& spec, const ChildOutcome& outcome) {
  if (outcome.timed_out) {
    return without_result(
        spec,
        fmt::format("ended after {} s (--timeout); a longer limit lets it finish{}", spec.timeout_s,
                    last_words(outcome)),
        CellStatus::TimedOut, outcome.wall_s);
  }
  if (outcome.signal_number != 0) {
    const bool killed = outcome.signal_number == SIGKILL;
    return without_result(
        spec,
        fmt::format("ended by {}{}{}", signal_name(outcome.signal_number),
                    killed ? ", perhaps because the machine ran out of memory (see dmesg)" : "",
                    last_words(outcome)),
        CellStatus::Crashed, outcome.wall_s);
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
      if (outcome.exit_code == 0 && result.key == spec.key) return result;
      problem = "it is another cell's";
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  return without_result(
      spec,
      fmt::format("the cell's process ended with exit code {} and no valid result: {}{}",
                  outcome.exit_code, problem, last_words(outcome)),
      CellStatus::Failed, outcome.wall_s);
}

extern const JobEntry kCellJob;
constinit const JobEntry kCellJob = job_entry<kCell>();

}  // namespace allocmark

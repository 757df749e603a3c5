// 'allocmark trace': summary, convert, validate and generate, one call each of
// workloads/trace_tools.h.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <string>

#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/stray_word.h"
#include "workloads/trace_tools.h"

namespace allocmark {
namespace {

struct TraceCommand {
  std::string action;               // "summary", "convert", "validate", "generate"
  std::vector<std::string> inputs;  // workloads or trace files
  std::string output;
  bool force = false;  // replace `output`
  std::uint64_t seed = 1;
};

void add_trace(CLI::App* app, TraceCommand* command) {
  app->require_subcommand(1);
  CLI::App* summary = app->add_subcommand("summary", "Say what a trace or workload holds");
  summary->add_option("input", command->inputs, "Trace files, or workloads as 'run' takes them")
      ->required()
      ->type_name("TRACE");
  summary->add_option("--seed", command->seed, "Seed of generators")
      ->capture_default_str()
      ->type_name("N");
  CLI::App* convert = app->add_subcommand(
      "convert", "Write a trace in another form; its ending decides: .csv, .csv.gz, .csv.zst");
  // Not into the list itself: a list's option would take the output's name, too.
  const auto set_input = [command](const std::string& input) { command->inputs = {input}; };
  convert->add_option_function<std::string>("input", set_input, "Trace file")
      ->required()
      ->type_name("FROM");
  convert->add_option("output", command->output, "Trace file to write")
      ->required()
      ->type_name("TO");
  CLI::App* validate = app->add_subcommand(
      "validate", "Check traces against every rule; names the line of the first broken one");
  validate->add_option("input", command->inputs, "Trace files")->required()->type_name("TRACE");
  CLI::App* generate = app->add_subcommand("generate", "Write the trace of a workload to a file");
  generate->add_option_function<std::string>("workload", set_input, "A workload as 'run' takes it")
      ->required()
      ->type_name("W");
  generate->add_option("output", command->output, "Trace file to write")
      ->required()
      ->type_name("TO");
  generate->add_option("--seed", command->seed, "Seed")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str()
      ->type_name("N");
  add_force(convert, &command->force);
  add_force(generate, &command->force);
  for (CLI::App* action : {summary, convert, validate, generate}) {
    action->callback([command, action] { command->action = action->get_name(); });
  }
}

// What write_trace_file can write. A device or an open stream gets the plain text.
void check_trace_name(const std::string& path) {
  if (path.starts_with("/dev/")) return;
  for (const char* ending : {".csv", ".csv.gz", ".csv.zst"}) {
    if (path.ends_with(ending)) return;
  }
  throw UsageError({.what = "this kind of trace file cannot be written",
                    .where = path,
                    .wanted = "a name that ends with .csv, .csv.gz or .csv.zst",
                    .next = "choose one of these endings"});
}

ExitCode run_trace(const TraceCommand& command) {
  refuse_split_workloads(command.inputs);
  int worst = 0;
  for (const std::string& input : command.inputs) {
    int status = 0;
    const bool writes = command.action == "convert" || command.action == "generate";
    if (writes) {
      check_trace_name(command.output);
      check_output_file(command.output, command.force, "allocmark trace " + command.action);
    }
    if (command.action == "summary") {
      status = trace_summary(input, command.seed, stdout);
    } else if (command.action == "validate") {
      status = trace_validate(input, stdout);
    } else {
      status = trace_convert(input, command.output, command.seed, stdout);
    }
    worst = std::max(worst, status);
  }
  return static_cast<ExitCode>(worst);
}

}  // namespace

extern const CommandEntry kTraceCommand;
constinit const CommandEntry kTraceCommand{
    "trace", "Look at, check, convert and generate traces",
    [](CLI::App* app) { return bind_command(app, add_trace, run_trace); }};

}  // namespace allocmark

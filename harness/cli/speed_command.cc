// 'allocmark speed': what allocmark itself costs, against its targets (harness/speed/speed.h).
// Needs no GPU.
#include <fmt/format.h>
#include "harness/cli/commands.h"
#include "harness/cli/parse_tools.h"
#include "harness/cli/terminal.h"
#include "harness/run/environment.h"
#include "harness/run/runtime_select.h"
#include "harness/speed/generation_speed.h"
#include "harness/speed/hit_speed.h"
#include "harness/speed/speed.h"
#include "workloads/generators.h"
#include "workloads/open_workload.h"

namespace allocmark {

namespace {

// Needs neither a device nor an allocator.
void measure_generators(const SpeedCommand& command) {
  std::vector<std::string> workloads = command.generate;
  if (workloads.size() == 1 && workloads.front() == "all") {
    workloads.clear();
    for (const GeneratorEntry& generator : generators()) workloads.emplace_back(generator.example);
  }
  for (const std::string& workload : workloads) {
    fmt::print("{}", to_text(measure_generation(workload, command.event_count)));
  }
}

}  // namespace

ExitCode speed_command(const SpeedCommand& command) {
  const std::string reason = unfit_build_reason();
  if (!command.generate.empty()) {
    if (!reason.empty()) print_warning("warning: " + reason);
    measure_generators(command);
    return ExitCode::Pass;
  }
  // A misspelt one is found before the long part.
  (void)open_workload(command.workload, /*seed=*/1);
  std::vector<std::string> arguments = command.argv;
  std::vector<char*> argv;
  for (std::string& argument : arguments) {
    argv.push_back(argument.data());
  }
  argv.push_back(nullptr);
  ensure_runtime("sim:h200", argv.data());
  if (!reason.empty()) print_warning("warning: " + reason);
  fmt::print("{}", to_text(measure_speed({.churn_event_count = command.event_count})));
  fmt::print("{}", to_text(measure_hits({.workload = command.workload, .conf = command.conf})));
  return ExitCode::Pass;
}

extern const CommandEntry kSpeedCommand;
constinit const CommandEntry kSpeedCommand{
    "speed", "Measure allocmark itself: overhead per event, replay rate, memory",
    [](CLI::App* app) { return bind_command(app, add_speed, speed_command); }};

}  // namespace allocmark

// 'allocmark reproduce BUNDLE' runs a published run's cells here and says what agrees.
#include <cstdint>
#include <string>

#include <fmt/format.h>
#include "base/own_process.h"
#include "harness/core/device/runtime_select.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"
#include "harness/tools/reproduce/reproduce.h"

namespace allocmark {
namespace {

struct ReproduceCommand {
  std::string bundle;  // an archive, a folder or a results file
  std::string format = "table";
  ReproduceOptions options;
};

void add_reproduce(CLI::App* app, ReproduceCommand* command) {
  add_value(app, "bundle", command->bundle, "BUNDLE",
            "What 'allocmark bundle' wrote, the folder it was unpacked to, a run's folder, or "
            "its results.jsonl")
      ->required();
  add_value(app, "--on", command->options.device, "DEVICE",
            "Run its cells on this device instead, and compare what does not hang on it: "
            "failed requests, bytes, placements, counters");
  add_value(app, "--jobs", command->options.job_count, "N",
            "Cells at a time; default: all cores on a simulated device, 1 on a GPU")
      ->check(CLI::Range(std::uint32_t{1}, std::uint32_t{1024}));
  app->add_flag("--trust", command->options.trusted,
                "Open the trace files and load the libraries that the bundle names: for one of "
                "your own");
  add_value(app, "-o,--out", command->options.folder, "DIR",
            "Keep the run of here in this folder, for 'compare' and 'report'; it must be new "
            "or empty");
  add_format(app, &command->format, "table or json", {"table", "json"});
  app->footer(
      "\nAn exact number is the same in every run: failed requests, bytes, placements, counters, "
      "and modelled times. A timed one has an interval in which a second run on the same machine "
      "lies at 95 %.\n"
      "Exit codes: 0 every exact number agrees, 1 one differs, 3 all that was run agrees and a "
      "cell could not be run here.\n"
      "\nExample:\n"
      "  allocmark reproduce my-run.tar.zst\n"
      "  allocmark reproduce of-a-gpu.tar.zst --on sim:h200\n");
}

ExitCode reproduce_command(const ReproduceCommand& command) {
  ReproduceOptions options = command.options;
  options.program_path = own_program_path();
  if (!options.device.empty()) check_device(options.device, "--on");
  const Reproduction made = reproduce(read_published(command.bundle), options);
  fmt::print("{}",
             command.format == "json" ? render_reproduction_json(made) : render_reproduction(made));
  return exit_code_of(made);
}

}  // namespace

extern const CommandEntry kReproduceCommand;
constinit const CommandEntry kReproduceCommand{
    "reproduce", "Run a published run's cells here and say what agrees",
    [](CLI::App* app) { return bind_command(app, add_reproduce, reproduce_command); }};

}  // namespace allocmark

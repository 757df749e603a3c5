// 'allocmark parity TRACE GOLDEN...': replays the trace on the caching allocator with the golden's
// recorded addresses as the device's answers, and says where it decides otherwise than PyTorch did.
// Checks; times nothing.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "allocators/conf/conf.h"
#include "base/error.h"
#include "harness/shell/options.h"
#include "harness/shell/registry.h"
#include "harness/tools/parity/golden.h"
#include "harness/tools/parity/parity.h"
#include "harness/tools/parity/parity_input.h"

namespace allocmark {
namespace {

struct GoldenTotals {
  std::uint64_t cells = 0, equal_cells = 0, decisions = 0, placements = 0, failures = 0;
  std::uint64_t counters = 0, mismatches = 0;

  void add(const caching::ParityReport& report) {
    ++cells;
    equal_cells += report.mismatch_count == 0 ? 1 : 0;
    decisions += report.decision_count;
    placements += report.placement_count;
    failures += report.failure_count;
    counters += report.counter_count;
    mismatches += report.mismatch_count;
  }
};

std::string conf_of(const ParityCommand& command, const std::string& name,
                    const caching::Golden& golden) {
  if (command.conf.has_value()) {
    return conf_of_user(*command.conf);
  }
  if (golden.conf.has_value()) {
    return *golden.conf;
  }
  const std::optional<std::string_view> conf = caching::golden_conf(name);
  if (!conf.has_value()) {
    throw UsageError({.what = "the golden's name does not say its config string",
                      .where = name,
                      .wanted = "a name that begins with C00 to C15, or a line '# conf: ...'",
                      .next = "give it with --conf"});
  }
  return std::string(*conf);
}

caching::ParityReport compare_file(const ParityCommand& command,
                                   const std::vector<Event>& operations, const ArchiveFile& file) {
  const std::string name = std::filesystem::path(file.name).filename().string();
  caching::Golden golden = caching::parse_golden(file.text, file.name);
  if (!command.pytorch.empty())
    golden.rules = &caching::require_rules(command.pytorch, "--pytorch");
  const std::unique_ptr<caching::ParityDevice> device =
      command.device_addresses ? caching::make_simulated_device() : nullptr;
  return caching::compare_with_golden(operations, golden, conf_of(command, name, golden),
                                      device.get());
}

// The state around it is shown for the first of all mismatches only.
void print_cell(const std::string& name, const caching::ParityReport& report, bool with_state) {
  fmt::print("{}: {} of {} decisions equal ({} placements, {} failures, {} counters)\n", name,
             report.decision_count - report.mismatch_count, report.decision_count,
             report.placement_count, report.failure_count, report.counter_count);
  fmt::print("{}", caching::describe(report, with_state));
}

void add_parity(CLI::App* app, ParityCommand* command) {
  add_value(app, "trace", command->trace, "TRACE",
            "Trace file or workload that the goldens were recorded with; 'random' with --live")
      ->required();
  add_value(app, "goldens", command->goldens, "GOLDEN",
            "Recorded answers of PyTorch's allocator: files, folders or tar archives");
  add_value(app, "-c,--conf", command->conf, "C",
            "Config string of the goldens [from their names], or of the live comparison");
  app->add_flag("--device-addresses", command->device_addresses,
                "Let the simulated device choose addresses instead of the golden");
  app->add_flag("--verbose", command->verbose, "Print a line for every golden");
  app->add_flag("--live", command->live,
                "Compare with PyTorch's own allocator (backend torch), now, on simulated devices");
  app->add_flag("--host", command->host,
                "With --live: compare the cache of pinned host memory, by random operations");
  add_value(app, "--bfc", command->bfc, "R",
            "With --live: compare the heap of bfc@R with the original, by random operations")
      ->check(CLI::IsMember({"tf2.21", "xla-2026-09"}));
  add_value(app, "--seed", command->seed, "N", "Seed of the first random program");
  add_default(app, "--operations", command->operation_count, "N", "Random operations in all")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}));
  add_value(app, "--answers", command->answers, "A",
            "With --live: print this allocator's answers to the program; compare nothing");
  add_value(app, "--pytorch", command->pytorch, "V",
            "Release of PyTorch: 2.13 for goldens [what they say], 2.13.0 with --live [torch's]");
  add_value(app, "--limit", command->limit, "SIZE", "Memory limit of a live trace, as 2GiB [none]");
  add_value(app, "--save", command->save_folder, "DIR",
            "Folder for the shortest random programs that differ");
}

ExitCode run_parity(const ParityCommand& command) {
  if (command.live) {
    if (!command.bfc.empty()) return bfc_live_command(command);
    return command.host ? host_live_command(command) : live_command(command);
  }
  if (command.goldens.empty()) {
    throw UsageError({.what = "there is nothing to compare with",
                      .where = "allocmark parity",
                      .wanted = "goldens after the trace, or --live",
                      .next = "see: allocmark parity --help"});
  }
  const std::vector<Event> operations = read_operations(command.trace);
  GoldenTotals totals;
  for (const std::string& path : command.goldens) {
    for (const ArchiveFile& file : read_goldens(path)) {
      const caching::ParityReport report = compare_file(command, operations, file);
      const bool first_mismatch = totals.mismatches == 0;
      totals.add(report);
      if (command.verbose || report.mismatch_count > 0) {
        print_cell(file.name, report, first_mismatch);
      }
    }
  }
  fmt::print(
      "{} of {} cells equal: {} decisions ({} placements, {} failures, {} counters), {} "
      "mismatches\n",
      totals.equal_cells, totals.cells, totals.decisions, totals.placements, totals.failures,
      totals.counters, totals.mismatches);
  return totals.mismatches == 0 ? ExitCode::Pass : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kParityCommand;
constinit const CommandEntry kParityCommand{
    "parity", "Compare the caching allocator with PyTorch's recorded answers",
    [](CLI::App* app) { return bind_command(app, add_parity, run_parity); }};

}  // namespace allocmark

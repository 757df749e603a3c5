// 'allocmark merge': many parts to one answer. Shards of a run become one run; the qualifications
// of many nodes become a list of what to do with each.

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "harness/core/run/environment.h"
#include "harness/shell/options.h"
#include "harness/shell/output_path.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/qualify/fleet/fleet.h"
#include "harness/tools/qualify/fleet/merge_runs.h"
#include "harness/tools/qualify/fleet/nodes.h"
#include "harness/tools/qualify/fleet/outliers.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

struct MergeCommand {
  std::vector<std::string> paths;
  std::string out, expect, baseline;
  std::string format = "table";
  double within_hours = 24;
  bool any_machine = false, force = false;
};

void add_merge(CLI::App* app, MergeCommand* command) {
  add_value(app, "dir", command->paths, "DIR",
            "Folders of shards ('run --shard i/n --out DIR'), or of nodes ('qualify --out "
            "DIR'), or a folder that holds only such folders")
      ->required();
  add_value(app, "-o,--out", command->out, "DIR",
            "Folder for the merged run, or for fleet.txt, fleet.json and lists of nodes");
  app->add_flag("--any-machine", command->any_machine,
                "For shards: allow several machines with the same processor, GPU model and driver");
  add_value(app, "--expect", command->expect, "FILE",
            "For nodes: file with the names that must answer, one a line");
  add_default(app, "--within-hours", command->within_hours, "H",
              "For nodes: how far from the others' median start a node may have started")
      ->check(number_range(0.01, 1e6));
  add_value(
      app, "--baseline", command->baseline, "FILE",
      "For nodes: file to write for 'qualify --baseline', with the times of healthy machines");
  add_format(app, &command->format, "For nodes: what is printed, table or json", {"table", "json"});
  add_force(app, &command->force);
  app->footer(
      "\nExit codes: 0 all are there and fit; 1 nodes are to be drained, or shards contradict each "
      "other;\n2 the parts do not belong together; 3 cells or nodes are missing.\nNothing is "
      "drained by this command.\n");
}

bool is_run(const fs::path& path) {
  std::error_code error;
  return fs::exists(path / "plan.json", error);
}

// A folder of runs stands for the runs in it. Empty: these are no runs.
std::vector<std::string> run_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> runs;
  for (const std::string& path : paths) {
    if (is_run(path)) {
      runs.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      if (is_run(entry.path())) inside.push_back(entry.path().string());
    }
    std::ranges::sort(inside);
    runs.insert(runs.end(), inside.begin(), inside.end());
  }
  return runs;
}

ExitCode merge_shards(const MergeCommand& command, const std::vector<std::string>& folders) {
  if (command.out.empty()) {
    throw UsageError({.what = "there is no folder for the merged run",
                      .where = "--out",
                      .wanted = "a folder that is new or empty",
                      .next = "add --out DIR"});
  }
  std::vector<fleet::Shard> shards;
  for (const std::string& folder : folders) shards.push_back(fleet::read_shard(folder));
  const fleet::MergedRun run = fleet::merge_runs(shards, command.any_machine);
  fleet::write_run(command.out, run);
  print_fitted(stdout, fleet::merge_text(run, shards.size()));
  if (!run.conflicts.empty()) return ExitCode::Regression;
  const bool is_whole = run.missing.empty() && run.unfinished.empty();
  return is_whole ? ExitCode::Pass : ExitCode::CellsIncomplete;
}

void write_fleet(const MergeCommand& command, const fleet::Fleet& fleet) {
  if (!command.baseline.empty()) {
    write_file(command.baseline, qualify::render_spreads(fleet::baseline_of(fleet.rows)));
  }
  if (command.out.empty()) return;
  make_output_folder(command.out, "--out");
  write_file(command.out + "/fleet.txt", render_fleet_table(fleet));
  write_file(command.out + "/fleet.json", render_fleet_json(fleet));
  write_file(command.out + "/drain.txt", render_names(fleet, fleet::Action::Drain));
  write_file(command.out + "/retry.txt", render_names(fleet, fleet::Action::Retry));
}

ExitCode merge_nodes(const MergeCommand& command) {
  if (!command.baseline.empty()) {
    check_output_file(command.baseline, command.force, "--baseline");
  }
  fleet::ReadOptions options{.expected = {},
                             .within_s = command.within_hours * 3600,
                             .now_s = static_cast<std::int64_t>(std::time(nullptr)),
                             .version = version_text()};
  if (!command.expect.empty()) options.expected = fleet::read_names(command.expect);
  fleet::Fleet fleet{.rows = fleet::read_nodes(command.paths, options), .kinds = {}};
  fleet.kinds = fleet::find_outliers(fleet.rows);
  fleet::decide(fleet.rows);
  write_fleet(command, fleet);
  if (command.format == "json") {
    fmt::print("{}", render_fleet_json(fleet));
  } else {
    print_fitted(stdout, render_fleet_table(fleet));
  }
  return fleet_exit_code(fleet);
}

ExitCode merge_command(const MergeCommand& command) {
  const std::vector<std::string> runs = run_folders(command.paths);
  return runs.empty() ? merge_nodes(command) : merge_shards(command, runs);
}

}  // namespace

extern const CommandEntry kMergeCommand;
constinit const CommandEntry kMergeCommand{
    "merge", "Put together shards of a run, or what 'qualify' found on many nodes",
    [](CLI::App* app) { return bind_command(app, add_merge, merge_command); }};

}  // namespace allocmark

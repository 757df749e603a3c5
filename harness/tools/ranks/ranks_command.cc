// 'allocmark ranks WORKLOAD...': the ranks of a parallel job side by side, each on its own device.
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/conf/conf.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/replay/replay.h"
#include "harness/core/run/environment.h"
#include "harness/shell/options.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/ranks/ranks.h"

namespace allocmark {
namespace {

struct RanksCommand {
  RanksSpec spec;
  JobWords words;
  std::string device = "auto", conf = "unset", format = "table";
};

void add_ranks(CLI::App* app, RanksCommand* command) {
  RanksSpec& spec = command->spec;
  JobWords& words = command->words;
  spec.allocator = "caching";
  add_value(app, "workloads", words.workloads, "W",
            "A train workload with dp, tp, cp or pp, to run all its ranks; or one workload "
            "for each rank")
      ->required();
  add_value(app, "--ranks", words.chosen, "R,R", "Only these ranks of the job; 2 to 16 run at once")
      ->delimiter(',');
  add_default(app, "-a,--allocator", spec.allocator, "A", "The allocator of every rank");
  add_default(app, "-c,--conf", command->conf, "CONF", "Its config string");
  add_default(app, "--capacity", words.capacity, "SIZE",
              "Memory of every rank's device: a size, unlimited, or 1.05x the rank's peak");
  add_value(app, "--rank-capacity", words.rank_capacities, "R=SIZE",
            "Memory of one rank's device instead, such as 2=40GiB; may be repeated")
      ->allow_extra_args(false);
  add_value(app, "--rank-workload", words.rank_workloads, "R=W",
            "Workload of one rank instead, such as 3=file:rank3.csv; may be repeated")
      ->allow_extra_args(false);
  add_default(app, "--on-oom", spec.on_oom, "P",
              "stop: a rank ends with its first failed request; skip: it goes on without; "
              "retry-after-sync: it waits for its device and asks once more, then goes on")
      ->check(CLI::IsMember(oom_policy_names()));
  add_default(app, "-d,--device", command->device, "D",
              "auto, sim:NAME, or cuda:0 for the machine's own GPUs from 0 on");
  add_default(app, "--seed", spec.seed, "N", "Seed of generators");
  add_format(app, &command->format, "What is printed: table or json", {"table", "json"});
}

ExitCode ranks_command(const RanksCommand& command) {
  RanksSpec spec = command.spec;
  spec.conf = conf_of_user(command.conf);
  spec.ranks = ranks_of(command.words);
  std::vector<std::string> workloads;
  for (const RankSpec& rank : spec.ranks) workloads.push_back(rank.workload);
  spec.allocator = allocator_for(spec.allocator, workloads);
  const DeviceChoice choice = choose_device(command.device, own_program_path());
  if (!choice.note.empty()) fmt::print(stderr, "{}\n", choice.note);
  if (choice.device.starts_with("cuda:") && choice.device != "cuda:0") {
    throw UsageError({.what = "ranks are on the machine's GPUs from 0 on",
                      .where = "--device",
                      .wanted = "cuda:0, or sim:NAME",
                      .got = choice.device,
                      .next = "hide GPUs with CUDA_VISIBLE_DEVICES"});
  }
  const std::vector<RankRow> rows = run_ranks_in_child(spec, choice.device);
  if (command.format == "json") {
    fmt::print("{}\n", to_json(rows));
  } else {
    print_fitted(stdout, render_ranks(spec, rows));
  }
  return ExitCode::Pass;
}

}  // namespace

extern const CommandEntry kRanksCommand;
constinit const CommandEntry kRanksCommand{
    "ranks", "Run the ranks of a parallel job side by side: who fails first, who waits for whom",
    [](CLI::App* app) { return bind_command(app, add_ranks, ranks_command); }};

}  // namespace allocmark

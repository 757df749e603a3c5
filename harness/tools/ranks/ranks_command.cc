// 'allocmark ranks WORKLOAD...': the ranks of a parallel job side by side, each on its own device.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/conf/conf.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/replay/replay.h"
#include "harness/core/run/environment.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/ranks/job.h"
#include "harness/tools/ranks/ranks_process.h"

namespace allocmark {
namespace {

struct RanksCommand {
  RanksSpec spec;
  JobWords words;
  std::string device = "auto", conf = "unset", on_oom = "stop", format = "table";
};

void add_ranks(CLI::App* app, RanksCommand* command) {
  RanksSpec& spec = command->spec;
  JobWords& words = command->words;
  spec.allocator = "caching";
  app->add_option("workloads", words.workloads,
                  "A train workload with dp, tp, cp or pp, to run all its ranks; or one workload "
                  "for each rank")
      ->required()
      ->type_name("W");
  app->add_option("--ranks", words.chosen, "Only these ranks of the job; 2 to 16 run at once")
      ->delimiter(',')
      ->type_name("R,R");
  app->add_option("-a,--allocator", spec.allocator, "The allocator of every rank")
      ->capture_default_str()
      ->type_name("A");
  app->add_option("-c,--conf", command->conf, "Its config string")
      ->capture_default_str()
      ->type_name("CONF");
  app->add_option("--capacity", words.capacity,
                  "Memory of every rank's device: a size, unlimited, or 1.05x the rank's peak")
      ->capture_default_str()
      ->type_name("SIZE");
  app->add_option("--rank-capacity", words.rank_capacities,
                  "Memory of one rank's device instead, such as 2=40GiB; may be repeated")
      ->allow_extra_args(false)
      ->type_name("R=SIZE");
  app->add_option("--rank-workload", words.rank_workloads,
                  "Workload of one rank instead, such as 3=file:rank3.csv; may be repeated")
      ->allow_extra_args(false)
      ->type_name("R=W");
  app->add_option("--on-oom", command->on_oom,
                  "stop: a rank ends with its first failed request; skip: it goes on without; "
                  "retry-after-sync: it waits for its device and asks once more, then goes on")
      ->check(CLI::IsMember(oom_policy_names()))
      ->capture_default_str()
      ->type_name("P");
  app->add_option("-d,--device", command->device,
                  "auto, sim:NAME, or cuda:0 for the machine's own GPUs from 0 on")
      ->capture_default_str()
      ->type_name("D");
  app->add_option("--seed", spec.seed, "Seed of generators")->capture_default_str()->type_name("N");
  add_format(app, &command->format, "What is printed: table or json", {"table", "json"});
}

ExitCode ranks_command(const RanksCommand& command) {
  RanksSpec spec = command.spec;
  spec.conf = conf_of_user(command.conf);
  spec.on_oom = command.on_oom;
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

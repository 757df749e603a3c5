// 'allocmark threads WORKLOAD': several threads on one instance of an allocator.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include "allocators/conf/conf.h"
#include "base/error.h"
#include "base/own_process.h"
#include "harness/core/run/environment.h"
#include "harness/core/run/plan_confs.h"
#include "harness/shell/options.h"
#include "harness/shell/question/job_release.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/threads/threads.h"

namespace allocmark {
namespace {

struct ThreadsCommand {
  ThreadsSpec spec;
  std::string device = "auto", conf = "unset", order = "free", streams = "own", table = "none";
  std::string format = "table";
  std::vector<std::string> ab = {};
  std::uint32_t round_count = 8;
};

void add_devices(CLI::App* app, ThreadsCommand* command) {
  ThreadsSpec& spec = command->spec;
  add_default(app, "--devices", spec.device_count, "K",
              "Number of devices, from 0 on. Threads are dealt out; each device has an "
              "allocator of its own")
      ->check(CLI::Range(1u, 16u));
  add_default(
      app, "--block-table", command->table, "T",
      "A further table of all devices' blocks: none, one (a single lock) or parts (67 locks)")
      ->check(CLI::IsMember({"none", "one", "parts"}));
}

void add_ab(CLI::App* app, ThreadsCommand* command) {
  add_value(app, "--ab", command->ab, "A B",
            "Two allocators in turn instead of --allocator; exit code 1 where B is worse")
      ->expected(2)
      ->excludes("--allocator");
  add_default(app, "--rounds", command->round_count, "N",
              "With --ab: how often both sides run in turn")
      ->check(CLI::Range(2u, 1000u));
}

void add_threads(CLI::App* app, ThreadsCommand* command) {
  ThreadsSpec& spec = command->spec;
  spec.allocator = "caching";
  spec.thread_counts = {1, 2, 4};
  add_value(app, "workload", spec.workload, "W",
            "A workload as 'run' takes it; each thread replays it")
      ->required();
  add_default(
      app, "-a,--allocator", spec.allocator, "A",
      "The allocator that the threads share; a plugin as pluggable:PATH.so,MALLOC,FREE,...");
  add_default(app, "-c,--conf", command->conf, "CONF", "Its config string");
  add_default(app, "--threads", spec.thread_counts, "N,N", "Numbers of threads; each is a row")
      ->check(CLI::Range(1u, 256u))
      ->delimiter(',');
  add_default(app, "--order", command->order, "O",
              "free: threads run as the system lets them; turns: one after the other, always alike")
      ->check(CLI::IsMember({"free", "turns"}));
  add_default(app, "--turn", spec.turn_event_count, "N", "Events that a thread replays in one turn")
      ->check(CLI::Range(1u, 1000000u));
  add_default(app, "--streams", command->streams, "S",
              "own: each thread uses its own streams; shared: all use the same")
      ->check(CLI::IsMember({"own", "shared"}));
  add_default(app, "--capacity", spec.capacity, "SIZE",
              "Memory of each device for its threads: a size, unlimited, or 1.05x the sum of "
              "their peaks");
  add_ab(app, command);
  add_devices(app, command);
  add_default(app, "-d,--device", command->device, "D", "auto, cuda:N or sim:NAME");
  add_default(app, "--seed", spec.seed, "N", "Seed of generators");
  add_default(app, "--passes", spec.pass_count, "N", "Passes, each on a fresh instance")
      ->check(CLI::Range(1u, 1000u));
  add_format(app, &command->format, "What is printed: table or json", {"table", "json"});
}

// NAME:VALUES, as 'run' takes it: a name and its config string.
void take_values(const std::string& device, ThreadsSpec* spec) {
  const Chosen chosen = parse_allocator(spec->allocator, known_allocators());
  if (!spec->conf.empty() && chosen.conf) {
    throw UsageError({.what = "the allocator has two config strings",
                      .where = "--conf",
                      .wanted = "one of --allocator NAME:VALUES and --conf",
                      .got = spec->conf,
                      .next = "leave --conf out"});
  }
  const PlanAllocator& allocator = *chosen.allocator;
  if (chosen.conf) spec->conf = *chosen.conf;
  spec->allocator = allocator.name;
  if (allocator.check_conf) {
    if (const auto error = allocator.check_conf(spec->conf)) throw UsageError(*error);
  }
  if (!device.starts_with("sim:") || !allocator.check_simulated) return;
  if (const auto error = allocator.check_simulated(spec->conf)) throw UsageError(*error);
}

// The allocator of one side, as 'run' names it.
ThreadsSpec with_allocator(ThreadsSpec spec, const std::string& allocator,
                           const std::string& device) {
  spec.allocator = allocator;
  if (allocator.find(':') == std::string::npos) {
    spec.allocator = allocator_for(allocator, {spec.workload});
  } else {
    take_values(device, &spec);
  }
  return spec;
}

bool is_sound(const std::vector<ThreadsRow>& rows) {
  return std::ranges::all_of(rows, &std::string::empty, &ThreadsRow::overlap);
}

// Each round begins with the other side.
ThreadsComparison compare_sides(const std::vector<ThreadsSpec>& sides, std::uint32_t round_count,
                                const std::string& device) {
  std::vector<ThreadsRounds> rounds(2);
  for (std::uint32_t round = 0; round < round_count; ++round) {
    for (std::uint32_t turn = 0; turn < 2; ++turn) {
      const std::uint32_t side = (round + turn) % 2;
      rounds[side].push_back(run_threads_in_child(sides[side], device));
    }
  }
  return compare_threads(rounds[0], rounds[1]);
}

ExitCode threads_command(const ThreadsCommand& command) {
  ThreadsSpec spec = command.spec;
  spec.conf = conf_of_user(command.conf);
  const DeviceChoice choice = choose_device(command.device, own_program_path());
  spec.order = command.order == "turns" ? ThreadOrder::Turns : ThreadOrder::Free;
  spec.shares_streams = command.streams == "shared";
  spec.table = command.table == "one"     ? TableLock::One
               : command.table == "parts" ? TableLock::Parts
                                          : TableLock::None;
  if (const std::string reason = unfit_build_reason(); !reason.empty()) {
    print_warning("warning: " + reason);
  }
  if (!choice.note.empty()) fmt::print(stderr, "{}\n", choice.note);
  const bool as_json = command.format == "json";
  if (!command.ab.empty()) {
    std::vector<ThreadsSpec> sides;
    for (const std::string& side : command.ab) {
      sides.push_back(with_allocator(spec, side, choice.device));
    }
    const ThreadsComparison comparison = compare_sides(sides, command.round_count, choice.device);
    if (as_json) {
      fmt::print("{}\n", to_json(comparison));
    } else {
      print_fitted(stdout, render_comparison(comparison));
    }
    return comparison.passed() ? ExitCode::Pass : ExitCode::Regression;
  }
  spec = with_allocator(spec, spec.allocator, choice.device);
  const std::vector<ThreadsRow> rows = run_threads_in_child(spec, choice.device);
  if (as_json) {
    fmt::print("{}\n", to_json(rows));
  } else {
    print_fitted(stdout, render_threads(spec, rows));
  }
  return is_sound(rows) ? ExitCode::Pass : ExitCode::Regression;
}

}  // namespace

extern const CommandEntry kThreadsCommand;
constinit const CommandEntry kThreadsCommand{
    "threads", "Share one allocator among threads: latency, throughput, fairness, waits",
    [](CLI::App* app) { return bind_command(app, add_threads, threads_command); }};

}  // namespace allocmark

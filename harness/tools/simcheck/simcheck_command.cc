// 'allocmark simcheck' runs programs on a GPU and on its simulation and says where they first
// differ. It does not measure.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/output_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/plan.h"
#include "harness/shell/options.h"
#include "harness/shell/question/known_allocators.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/simcheck/driver_calls.h"
#include "harness/tools/simcheck/simcheck.h"

namespace allocmark {
namespace {

using simcheck::Difference;
using simcheck::Setting;

// Programs in one process: a GPU takes a second to start.
constexpr std::size_t kAtOnce = 25;
constexpr std::uint64_t kJobShrinkAttemptMax = 120;
constexpr double kTimeoutS = 600;

struct SimcheckCommand {
  std::vector<std::string> workloads;
  std::string on = "cuda:0", against = "sim:h200";
  std::uint64_t seed_count = 20, seed_first = 1, event_count = 1500;
  std::vector<std::string> allocators, confs;
  std::string save_folder;
  bool driver = false;
};

void add_simcheck(CLI::App* app, SimcheckCommand* command) {
  add_value(app, "workload", command->workloads, "W",
            "Traces or workloads to run besides the random programs, each with much memory "
            "and with little");
  add_default(app, "--on", command->on, "D", "The reference device: cuda:N or sim:NAME");
  add_default(app, "--against", command->against, "D", "Its simulation");
  add_default(app, "--seeds", command->seed_count, "N",
              "Number of random programs. Half of them use three streams, and half have little "
              "memory left")
      ->check(CLI::Range(0, 100'000));
  add_default(app, "--first-seed", command->seed_first, "N", "The first program's seed");
  add_default(app, "--events", command->event_count, "N", "Most events of a program")
      ->check(CLI::Range(1, 10'000'000));
  add_value(app, "-a,--allocator", command->allocators, "A",
            "An allocator as 'run' takes it; may be repeated; unset: native, async and caching")
      ->allow_extra_args(false);
  add_value(app, "-c,--conf", command->confs, "C",
            "A config string as 'run' takes it, or NAME=STRING for allocator NAME alone; may be "
            "repeated; with neither option: eight settings of the three")
      ->allow_extra_args(false);
  app->add_flag(
         "--driver", command->driver,
         "Ask the CUDA driver itself, without an allocator: cuMemAlloc, its pool, and mapped "
         "memory, with questions about every block")
      ->excludes("--allocator")
      ->excludes("--conf");
  add_value(app, "--save", command->save_folder, "DIR",
            "Folder for the shortest programs that still differ, as traces");
}

std::vector<Setting> settings_of(const SimcheckCommand& command) {
  if (command.driver) {
    return {{simcheck::kDriverAllocator, "malloc"},
            {simcheck::kDriverAllocator, "pool"},
            {simcheck::kDriverAllocator, "map"}};
  }
  if (command.allocators.empty() && command.confs.empty()) {
    return {{"native", ""},
            {"async", ""},
            {"async", "release_threshold_mb:max"},
            {"async", "pool:own,release_threshold_mb:256"},
            {"caching", ""},
            {"caching", "max_split_size_mb:32"},
            {"caching", "expandable_segments:True"},
            {"caching", "roundup_power2_divisions:4"}};
  }
  const std::vector<std::string> all = {"native", "async", "caching"};
  const Plan plan = make_plan({.workloads = {{.text = "churn", .recorded = true}},
                               .allocators = command.allocators.empty() ? all : command.allocators,
                               .confs = command.confs,
                               .capacities = {"unlimited"},
                               .seeds = {1},
                               .device = {}},
                              known_allocators());
  for (const std::string& note : plan.notes) print_wrapped(stderr, note);
  std::vector<Setting> settings;
  for (const CellKey& key : plan.cells)
    settings.push_back({.allocator = key.allocator, .conf = key.conf_text()});
  return settings;
}

std::vector<simcheck::Program> programs_of(const SimcheckCommand& command) {
  std::vector<simcheck::Program> programs;
  for (std::uint64_t i = 0; i < command.seed_count; ++i) {
    programs.push_back(simcheck::random_program(command.seed_first + i, command.event_count));
  }
  for (const std::string& workload : command.workloads) {
    for (const bool full : {false, true}) {
      programs.push_back(simcheck::read_program(workload, command.event_count, full));
    }
  }
  return programs;
}

std::string name_of(const Setting& setting) {
  return setting.conf.empty() ? setting.allocator : setting.allocator + "=" + setting.conf;
}

std::string memory_of(const simcheck::Program& program) {
  return program.capacity_bytes == 0 ? "all memory" : format_bytes(program.capacity_bytes);
}

void print_difference(const SimcheckCommand& command, const simcheck::Job& job,
                      const Difference& difference) {
  fmt::print("{}, {}, {}: event {} ({}) differs, after {} failed requests\n", job.program.name,
             name_of(job.setting), memory_of(job.program), difference.event, difference.row,
             difference.failures_before);
  fmt::print("  {}: {}\n  {}: {}\n", command.on, difference.on, command.against,
             difference.against);
}

void save_shortest(const SimcheckCommand& command, const simcheck::Lab& lab,
                   const simcheck::Job& job, std::uint64_t number) {
  const std::optional<simcheck::Job> shortest = simcheck::shrink(lab, job, kJobShrinkAttemptMax);
  if (!shortest) {
    fmt::print("  alone it does not differ: what ran before it in the process matters\n");
    return;
  }
  std::filesystem::create_directories(command.save_folder);
  const std::string path = fmt::format("{}/simcheck_{}.csv", command.save_folder, number);
  write_file(path, simcheck::to_trace(shortest->program));
  fmt::print("  {} events that still differ: {}\n", shortest->program.events.size(), path);
}

ExitCode simcheck_command(const SimcheckCommand& command) {
  check_device(command.on, "--on");
  check_device(command.against, "--against");
  const std::vector<Setting> settings = settings_of(command);
  const std::vector<simcheck::Program> programs = programs_of(command);
  const simcheck::Lab lab = simcheck::make_lab(command.on, command.against, kTimeoutS);
  std::uint64_t differing = 0, answers = 0, failures = 0, unanswered = 0;
  for (const Setting& setting : settings) {
    std::uint64_t differing_here = 0;
    for (std::size_t begin = 0; begin < programs.size(); begin += kAtOnce) {
      std::vector<simcheck::Job> jobs;
      for (std::size_t i = begin; i < std::min(begin + kAtOnce, programs.size()); ++i) {
        jobs.push_back({.setting = setting, .program = programs[i]});
      }
      const simcheck::Report report = simcheck::compare(lab, jobs);
      answers += report.answer_count;
      failures += report.failure_count;
      unanswered += report.unanswered_count;
      for (const Difference& difference : report.differences) {
        ++differing_here;
        print_difference(command, jobs[difference.job], difference);
        if (!command.save_folder.empty()) {
          save_shortest(command, lab, jobs[difference.job], ++differing);
        } else {
          ++differing;
        }
      }
    }
    fmt::print("{}: {} of {} programs differ\n", name_of(setting), differing_here, programs.size());
    std::fflush(stdout);
  }
  fmt::print("{} on and {} against: {} answers compared ({} failed requests), {} differences\n",
             command.on, command.against, answers, failures, differing);
  if (differing > 0) return ExitCode::Regression;
  if (unanswered == 0) return ExitCode::Pass;
  fmt::print(
      "{} runs of a program broke on both devices, were not done within {:.0f} s, or an earlier "
      "one ended their process: nothing is known of them\n",
      unanswered, kTimeoutS);
  return ExitCode::CellsIncomplete;
}

}  // namespace

extern const CommandEntry kSimcheckCommand;
constinit const CommandEntry kSimcheckCommand{
    "simcheck", "Compare a simulated GPU with the GPU, call by call",
    [](CLI::App* app) { return bind_command(app, add_simcheck, simcheck_command); }};

}  // namespace allocmark

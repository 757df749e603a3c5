// The options of 'run', but for those that commands share (harness/shell/README.md).

#include "harness/tools/run/run_options.h"
#include "harness/core/replay/replay.h"
#include "harness/shell/options.h"
#include "harness/shell/pages/comparison_options.h"
#include "harness/shell/registry.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kTimeoutMaxS = 365 * 24 * 3600;
constexpr const char* kRunFooter =
    "\nEvery combination of workload, allocator, config string, capacity and seed is one cell, run "
    "in a process of\n"
    "its own. Axes that are not given come from the suite (--suite), else: all allocators, config "
    "string unset,\n"
    "capacity unlimited, seed 1.\n"
    "\nExamples:\n"
    "  allocmark run --suite smoke\n"
    "  allocmark run --workload bert_varlen_infer --capacity unlimited 1.05x --device sim:h200\n"
    "  allocmark run --workload file:my_job.csv.gz --allocator caching async \\\n"
    "      --conf unset --conf caching=expandable_segments:True --conf "
    "async=release_threshold_mb:max\n"
    "  allocmark run --resume --out allocmark-results/20260101T120000Z-default\n";

void add_run_axes(CLI::App* app, RunCommand* command) {
  app->option_defaults()->group(
      "What to run (each may be given several times, or take several values)");
  add_value(app, "-w,--workload", command->workloads, "W",
            "A recorded trace or scenario by name, file:PATH, or a generator with parameters, as "
            "in train:gpt2-124m,batch=8");
  add_value(
      app, "-a,--allocator", command->allocators, "A",
      "An allocator by name, or with values, as in pluggable:PATH.so,MALLOC_SYMBOL,FREE_SYMBOL");
  add_value(app, "-c,--conf", command->confs, "C",
            "A whole config string with its commas "
            "(max_split_size_mb:128,garbage_collection_threshold:0.8), or 'unset'. Every allocator "
            "that knows its keys gets it; NAME=STRING is for allocator NAME alone");
  add_value(
      app, "--capacity", command->capacities, "X",
      "Memory that the program may use on the device: unlimited, a size (8GiB), or a multiple of "
      "the trace's peak (1.05x). For a smaller card give --device its memory instead");
  add_value(app, "--seeds", command->seeds, "N|LIST",
            "How many seeds (3 = seeds 1, 2, 3), or which: 5,9 or 5-8. Recorded traces have none");
  add_value(app, "--suite", command->suite, "NAME",
            "A named set of the above: see allocmark list suites");
  add_value(app, "--scenario", command->scenario, "NAME",
            "A scenario file by name: see allocmark list scenarios");
}

// What is done instead of the timed passes, or looked at and kept beside them.
void add_run_checks(CLI::App* app, RunCommand* command) {
  add_value(app, "--for", command->soak_for, "TIME",
            "Soak instead of a few passes: the cells share this time (90s, 30min, 8h), each "
            "repeats its workload on one instance of its allocator, and what grows meanwhile is "
            "named. With --ab both sides soak, and what B grows more than A is worse. On a "
            "simulated device the time is virtual");
  CLI::Option* const verify =
      add_value(app, "--verify", command->verify, "LEVEL",
                "What is checked without a clock: off, edges (addresses and order of every block, "
                "contents of some) or whole (all contents; takes long)")
          ->check(CLI::IsMember({"off", "edges", "whole"}))
          ->capture_default_str();
  app->add_flag("--no-verify", command->no_verify, "Short for --verify off")->excludes(verify);
  app->add_flag("--timeline", command->timeline,
                "Keep memory over time and address maps of every cell for the report [only of "
                "cells that the answer names]");
}

// How often and when a cell is timed.
void add_run_passes(CLI::App* app, RunCommand* command) {
  add_value(app, "--passes", command->pass_count, "N",
            "Timed passes over the trace in each cell [3]")
      ->check(CLI::Range(1u, 100000u));
  add_value(app, "--pass-order", command->pass_order, "ORDER",
            "When the timed passes of a cell are made: rounds (spread over the run, so that "
            "disturbances of minutes show between them; the default on a simulated device) or "
            "cells (in a row; on a GPU always)")
      ->check(CLI::IsMember({"rounds", "cells"}));
}

void add_run_manner(CLI::App* app, RunCommand* command) {
  app->option_defaults()->group("How to run it");
  add_default(
      app, "-d,--device", command->device, "D",
      "auto (a GPU where one works, else sim:h200), cuda:N, sim:CARD (allocmark list cards), "
      "or sim:PATH with a profile file. sim:h200,memory=24GiB is a card with that total: "
      "fractions and thresholds of it follow, and its context is taken off");
  add_value(app, "--on-oom", command->on_oom, "skip|stop|retry-after-sync",
            "What the program does when a request fails: skip (go on without that block; the "
            "default), stop, or retry-after-sync (wait for the device, ask once more, then skip)")
      ->check(CLI::IsMember(oom_policy_names()));
  add_value(app, "--kernels", command->kernels, "K",
            "Kernels between the requests: trace (the workload's own; the default), off, or a "
            "duration such as 20us, for one kernel after every request");
  add_run_passes(app, command);
  add_run_checks(app, command);
  add_value(app, "-j,--jobs", command->job_count, "J",
            "Cells at a time [simulated: all cores; GPU: 1]")
      ->check(CLI::Range(1u, 4096u));
  add_value(app, "--gpus", command->gpu_count, "N",
            "Deal the cells out to the first N GPUs, which are of one model; each runs one cell at "
            "a time. Without --jobs, --ab and --for")
      ->check(CLI::Range(1u, 64u));
  add_value(app, "--calibration", command->calibration, "FILE",
            "File of 'compare --calibrate' on this machine, for the intervals in which a second "
            "measurement is expected [the H200's]");
  add_value(app, "--shard", command->shard, "i/n",
            "Only part i of n of the cells, to spread a run over machines");
  add_value(app, "--timeout", command->timeout_s, "SECONDS",
            "Seconds that a cell may take, at most 31536000 (a year); 0 = no limit")
      ->check(CLI::Range(std::uint64_t{0}, kTimeoutMaxS))
      ->capture_default_str();
  add_value(app, "--record-placements", command->placements_folder, "DIR",
            "Folder for the answers of each cell's allocator, as goldens for 'allocmark parity'");
  app->add_flag("--allow-debug", command->allow_debug,
                "Run even if this build is unoptimised or has sanitizers; the results are marked");
  app->add_flag("--dry-run", command->dry_run, "Only list the cells");
}

void add_run_output(CLI::App* app, RunCommand* command) {
  app->option_defaults()->group("Results");
  add_value(app, "-o,--out", command->out, "DIR",
            "Folder for the results [allocmark-results/<UTC time>-<suite>]");
  app->add_flag("--resume", command->resume,
                "Go on with the run in --out DIR: finished cells are kept, others are run (again)");
  app->add_flag_callback(
      "--no-html", [command] { command->html = false; }, "Do not make report.html");
  add_format(app, &command->format,
             "What is printed at the end: table, markdown, csv, json (one document) or jsonl (a "
             "line for each cell)",
             {"table", "markdown", "csv", "json", "jsonl"});
}

void add_ab(CLI::App* app, RunCommand* command) {
  app->option_defaults()->group("Two sides in turn");
  add_value(app, "--ab", command->ab, "A B",
            "Run A and B in turn and compare them: two allocmark programs (paths), two allocators "
            "as --allocator takes them, or two config strings as --conf takes them")
      ->expected(2);
  add_value(app, "--untimed", command->untimed, "W",
            "With --ab, further workloads of which only exact numbers and checks are compared, in "
            "two rounds: they need not be as long as timed ones")
      ->expected(1, CLI::detail::expected_max_vector_size);
  add_rounds(app, "Two sides in turn", &command->interleave);
  add_value(app, "--policy", command->policy, "FILE", "JSON file that says what a regression is");
  add_value(app, "--min-effect", command->effect_min, "SHARE",
            "Smallest change of a timed number that counts [3%]");
  app->option_defaults()->group("How to run it");
  add_value(app, "--until-width", command->until_width, "SHARE",
            "Go on with timed passes until the intervals of allocate's P50 and P99 are at most "
            "this wide, as in 5%");
  add_value(app, "--passes-max", command->pass_count_max, "N",
            "Most timed passes, with --until-width")
      ->check(CLI::Range(2u, 100000u))
      ->capture_default_str();
}

void add_run_command(CLI::App* app, RunCommand* command) {
  const std::string usual_group = app->option_defaults()->get_group();
  add_run_axes(app, command);
  add_run_manner(app, command);
  add_run_output(app, command);
  add_ab(app, command);
  app->option_defaults()->group(usual_group);
  app->footer(kRunFooter);
}

}  // namespace

extern const CommandEntry kRunCommand;
constinit const CommandEntry kRunCommand{
    "run", "Run workloads against allocators and compare",
    [](CLI::App* app) { return bind_command(app, add_run_command, run_command); }};

}  // namespace allocmark

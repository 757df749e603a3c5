// See parse.h. CLI11 takes long to compile and is included nowhere else.
#include "harness/cli/parse.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include "base/error.h"
#include "base/nearest.h"
#include "harness/cli/parse_interleave.h"
#include "harness/cli/parse_qualify.h"
#include "harness/cli/parse_report.h"
#include "harness/cli/parse_tools.h"

namespace allocmark {
namespace {

constexpr const char* kDescription =
    "allocmark - stress tests and benchmarks for GPU memory allocators.\n"
    "Replays what real programs do with memory on an allocator, and says for each config string "
    "how long its calls\n"
    "take, whether it runs out of memory, and how much it wastes. Needs no GPU: one is simulated "
    "where there is none.\n";

constexpr const char* kMainFooter =
    "\nExamples:\n"
    "  allocmark run                                  the default suite, on a GPU if there is one\n"
    "  allocmark run --workload gpt2_train_amp --allocator caching \\\n"
    "      --conf unset --conf max_split_size_mb:128 --capacity 1.05x\n"
    "  allocmark explain max_split_size_mb:128\n"
    "\nExit codes: 0 done; 1 regression, mismatch or an unfit GPU; 2 wrong usage; 3 cells crashed, "
    "timed out or are missing; 4 the machine "
    "is unfit;\n"
    "5 a bug in allocmark. Running out of memory is a result, not an error.\n";

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

void add_list(CLI::App* app, ListCommand* command) {
  app->add_option("what", command->what, "What to list; all where not given")
      ->check(CLI::IsMember({"workloads", "allocators", "scenarios", "devices", "suites"}))
      ->type_name("KIND");
}

void add_run_axes(CLI::App* app, RunCommand* command) {
  const char* group = "What to run (each may be given several times, or take several values)";
  app->add_option(
         "-w,--workload", command->workloads,
         "A recorded trace or scenario by name, file:PATH, or a generator with parameters, as in "
         "train:gpt2-124m,batch=8")
      ->group(group)
      ->type_name("W");
  app->add_option("-a,--allocator", command->allocators,
                  "An allocator by name, or with what its config string names, as in "
                  "pluggable:PATH.so,MALLOC_SYMBOL,FREE_SYMBOL")
      ->group(group)
      ->type_name("A");
  app->add_option(
         "-c,--conf", command->confs,
         "A whole config string, commas and all "
         "(max_split_size_mb:128,garbage_collection_threshold:0.8); "
         "'unset' for none. It is run with every allocator that knows its keys; NAME=STRING is for "
         "allocator NAME alone")
      ->group(group)
      ->type_name("C");
  app->add_option("--capacity", command->capacities,
                  "Memory the program may use: unlimited, a size (8GiB), or a multiple of what the "
                  "trace has live at "
                  "its peak (1.05x)")
      ->group(group)
      ->type_name("X");
  app->add_option(
         "--seeds", command->seeds,
         "How many seeds (3 = seeds 1, 2, 3), or which: 5,9 or 5-8. Recorded traces have none")
      ->group(group)
      ->type_name("N|LIST");
  app->add_option("--suite", command->suite, "A named set of the above: see allocmark list suites")
      ->group(group)
      ->type_name("NAME");
  app->add_option("--scenario", command->scenario,
                  "A scenario file by name: see allocmark list scenarios")
      ->group(group)
      ->type_name("NAME");
}

void add_run_manner(CLI::App* app, RunCommand* command) {
  const char* group = "How to run it";
  app->add_option("-d,--device", command->device,
                  "auto (a GPU where one works, else sim:h200), cuda:N, sim:NAME, or sim:PATH with "
                  "a profile file")
      ->group(group)
      ->capture_default_str()
      ->type_name("D");
  app->add_option("--on-oom", command->on_oom,
                  "What the program does when a request fails: skip (go on without that block; the "
                  "default) or stop")
      ->check(CLI::IsMember({"skip", "stop"}))
      ->group(group)
      ->type_name("skip|stop");
  app->add_option(
         "--kernels", command->kernels,
         "What the device does meanwhile: trace (the workload's own kernels; the default), "
         "off (nothing), or a duration, as 20us: a kernel of it after every request")
      ->group(group)
      ->type_name("K");
  app->add_option("--passes", command->pass_count, "Timed passes over the trace in each cell [3]")
      ->check(CLI::Range(1u, 100000u))
      ->group(group)
      ->type_name("N");
  CLI::Option* const verify =
      app->add_option("--verify", command->verify,
                      "What the untimed checking pass looks at: off, edges (addresses and order of "
                      "every block, contents of some) or whole (all contents; takes long)")
          ->check(CLI::IsMember({"off", "edges", "whole"}))
          ->group(group)
          ->capture_default_str()
          ->type_name("LEVEL");
  app->add_flag("--no-verify", command->no_verify, "Short for --verify off")
      ->excludes(verify)
      ->group(group);
  app->add_flag("--timeline", command->timeline,
                "Also keep memory over time and address maps of each cell, for the report")
      ->group(group);
  app->add_option("-j,--jobs", command->job_count, "Cells at a time [simulated: all cores; GPU: 1]")
      ->check(CLI::Range(1u, 4096u))
      ->group(group)
      ->type_name("J");
  app->add_option(
         "--calibration", command->calibration,
         "How far apart two runs come here ('compare --calibrate'), for the intervals that "
         "cells state for a repeat [the H200's]")
      ->group(group)
      ->type_name("FILE");
  app->add_option("--shard", command->shard,
                  "Only part i of n of the cells, to spread a run over machines")
      ->group(group)
      ->type_name("i/n");
  app->add_option("--timeout", command->timeout_s, "Seconds a cell may take; 0 = no limit")
      ->group(group)
      ->capture_default_str()
      ->type_name("S");
  app->add_option("--record-placements", command->placements_folder,
                  "Write what each cell's allocator answered into this folder, as goldens for "
                  "'allocmark parity'")
      ->group(group)
      ->type_name("DIR");
  app->add_flag("--allow-debug", command->allow_debug,
                "Run even if this build is unoptimised or has sanitizers; the results are marked")
      ->group(group);
  app->add_flag("--dry-run", command->dry_run, "Only list the cells")->group(group);
}

void add_run_output(CLI::App* app, RunCommand* command) {
  const char* group = "Results";
  app->add_option("-o,--out", command->out,
                  "Folder for the results [allocmark-results/<UTC time>-<suite>]")
      ->group(group)
      ->type_name("DIR");
  app->add_flag("--resume", command->resume,
                "Go on with the run in --out DIR: finished cells are kept, others are run (again)")
      ->group(group);
  app->add_flag("!--no-html", command->html, "Do not make report.html")->group(group);
  app->add_option("--format", command->format,
                  "What is printed at the end: table, markdown, csv or json")
      ->check(CLI::IsMember({"table", "markdown", "csv", "json"}))
      ->group(group)
      ->capture_default_str()
      ->type_name("F");
}

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
      "convert", "Write a trace in another form; the suffix decides (.gz, .zst: compressed)");
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
}

void add_explain(CLI::App* app, ExplainCommand* command) {
  app->add_option("conf", command->conf, "The config string, as in PYTORCH_CUDA_ALLOC_CONF")
      ->required()
      ->type_name("CONF");
  app->add_option("-a,--allocator", command->allocator, "The allocator whose keys it has")
      ->capture_default_str()
      ->type_name("A");
}

void add_compare(CLI::App* app, CompareCommand* command) {
  app->add_option(
         "runs", command->runs,
         "BASE and NEW: folders that 'allocmark run' wrote, or results.jsonl files; or the "
         "one folder of an A/B run")
      ->required()
      ->type_name("RUN");
  app->add_option("--policy", command->policy, "JSON file that says what a regression is")
      ->type_name("FILE");
  app->add_option("--calibration", command->calibration,
                  "JSON file that says how far apart two runs of the same thing come here")
      ->type_name("FILE");
  app->add_option("--calibrate", command->calibrate,
                  "Write that file from two or more RUNs of the same thing instead of comparing")
      ->type_name("FILE");
  app->add_flag("--no-calibration", command->no_calibration,
                "Call timed differences without one: only for runs that were interleaved");
  app->add_option("--min-effect", command->effect_min,
                  "Smallest change of a timed number that is called one [3%]")
      ->type_name("SHARE");
  app->add_option("--only", command->scope,
                  "Only exact numbers (comparable between machines), or only timed ones")
      ->check(CLI::IsMember({"exact", "timed"}))
      ->type_name("exact|timed");
  app->add_option("--format", command->format,
                  "table, json, junit, github (github-action-benchmark) or bencher")
      ->check(CLI::IsMember({"table", "json", "junit", "github", "bencher"}))
      ->capture_default_str()
      ->type_name("F");
  app->add_option("-o,--out", command->out, "Write the format to this file, print the table")
      ->type_name("FILE");
  app->add_flag("--all", command->all, "List numbers that are the same, too");
  app->footer(
      "\nExit codes: 0 no regression, 1 a regression by the policy, 2 usage, 3 cells are missing, "
      "crashed or\ncannot be compared, or nothing was compared or could be decided.\n");
}

void add_parity(CLI::App* app, ParityCommand* command) {
  app->add_option(
         "trace", command->trace,
         "Trace file or workload that the goldens were recorded with; 'random' with --live")
      ->required()
      ->type_name("TRACE");
  app->add_option("goldens", command->goldens,
                  "What PyTorch's allocator answered: files, folders or .tar.xz archives of them")
      ->type_name("GOLDEN");
  app->add_option("-c,--conf", command->conf,
                  "Config string of the goldens [from their names], or of the live comparison")
      ->type_name("C");
  app->add_flag("--device-addresses", command->device_addresses,
                "Let the simulated device choose addresses instead of the golden");
  app->add_flag("--verbose", command->verbose, "Print a line for every golden");
  app->add_flag("--live", command->live,
                "Compare with PyTorch's own allocator (backend torch), now, on simulated devices");
  app->add_option("--seed", command->seed, "Of the first random program")->type_name("N");
  app->add_option("--operations", command->operation_count, "Random operations in all")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}))
      ->capture_default_str()
      ->type_name("N");
  app->add_option("--limit", command->limit, "Memory limit of a live trace, as 2GiB [none]")
      ->type_name("SIZE");
  app->add_option("--save", command->save_folder,
                  "Folder for the shortest random programs that differ")
      ->type_name("DIR");
}

// Names a user may have meant: the subcommands and options of the deepest app that was entered.
std::vector<std::string> known_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* subcommand : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(subcommand->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  return names;
}

const CLI::App& deepest_app(const CLI::App& app) {
  const std::vector<CLI::App*> entered = app.get_subcommands();
  return entered.empty() ? app : deepest_app(*entered.back());
}

// The first word that is neither a subcommand nor an option where it stands, and what is known
// there.
struct UnknownWord {
  std::string word;
  std::vector<std::string> known;
};

std::optional<UnknownWord> find_unknown_word(const CLI::App& root,
                                             const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const std::vector<std::string> known = known_names(*app);
    const std::string name = word.substr(0, word.starts_with("--") ? word.find('=') : word.npos);
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
    const bool wants_subcommand = app->get_require_subcommand_min() > 0;
    if (!is_known && (name.starts_with("--") || (wants_subcommand && !name.starts_with("-")))) {
      return UnknownWord{.word = name, .known = known};
    }
    if (is_known && wants_subcommand && !name.starts_with("-")) {
      app = app->get_subcommand(name);
    }
  }
  return std::nullopt;
}

[[noreturn]] void throw_parse_error(const CLI::ParseError& error, const CLI::App& app,
                                    const std::vector<std::string>& words) {
  const CLI::App& where = deepest_app(app);
  const std::string path =
      &where == &app
          ? "allocmark"
          : "allocmark " +
                (where.get_parent() == &app ? "" : where.get_parent()->get_name() + " ") +
                where.get_name();
  const std::string help = fmt::format("see: {} --help", path);
  if (const std::optional<UnknownWord> unknown = find_unknown_word(app, words)) {
    throw UsageError({.what = fmt::format("'{}' is not known here", unknown->word),
                      .where = path,
                      .wanted = "",
                      .got = "",
                      .next = suggest(unknown->word, unknown->known) + "; " + help});
  }
  throw UsageError({.what = error.what(), .where = path, .wanted = "", .got = "", .next = help});
}

// What the options write to while a command line is parsed; only one of them is asked for.
struct Commands {
  ListCommand list;
  RunCommand run;
  TraceCommand trace;
  ExplainCommand explain;
  ReportCommand report;
  BundleCommand bundle;
  CheckCommand check;
  CompareCommand compare;
  ParityCommand parity;
  SpeedCommand speed;
  QualifyCommand qualify;
  ProfileCommand profile;
  FidelityCommand fidelity;
};

void keep_parsed(const CLI::App& app, Commands commands, const std::vector<std::string>& arguments,
                 CommandLine& line) {
  const auto parsed = [&](const char* name) { return app.got_subcommand(name); };
  commands.run.argv = arguments;
  commands.compare.argv = arguments;
  commands.speed.argv = arguments;
  commands.qualify.argv = arguments;
  commands.profile.argv = arguments;
  if (parsed("list")) line.list = commands.list;
  if (parsed("run")) line.run = commands.run;
  if (parsed("trace")) {
    commands.trace.action = app.get_subcommand("trace")->get_subcommands().front()->get_name();
    line.trace = commands.trace;
  }
  if (parsed("explain")) line.explain = commands.explain;
  if (parsed("report")) line.report = commands.report;
  if (parsed("bundle")) line.bundle = commands.bundle;
  if (parsed("check")) line.check = commands.check;
  if (parsed("compare")) line.compare = commands.compare;
  if (parsed("parity")) line.parity = commands.parity;
  if (parsed("speed")) line.speed = commands.speed;
  if (parsed("qualify")) line.qualify = commands.qualify;
  if (parsed("profile")) line.profile = commands.profile;
  if (parsed("fidelity")) line.fidelity = commands.fidelity;
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv, const std::string& version) {
  CLI::App app(kDescription, "allocmark");
  app.set_version_flag("--version", "allocmark " + version);
  app.require_subcommand(1);
  app.option_defaults()->always_capture_default(false);
  app.get_formatter()->column_width(34);

  const std::vector<std::string> arguments(argv, argv + argc);
  CommandLine line;
  Commands commands;
  CLI::App* list_app =
      app.add_subcommand("list", "List workloads, allocators, scenarios, devices and suites");
  CLI::App* run_app = app.add_subcommand("run", "Run workloads against allocators and compare");
  CLI::App* trace_app = app.add_subcommand("trace", "Look at, check, convert and generate traces");
  CLI::App* explain_app = app.add_subcommand("explain", "Say what a config string means");
  CLI::App* report_app =
      app.add_subcommand("report", "Make the report of a results folder (again)");
  CLI::App* compare_app =
      app.add_subcommand("compare", "Say whether one run is better or worse than another");
  CLI::App* parity_app =
      app.add_subcommand("parity", "Compare the caching allocator with PyTorch's recorded answers");
  CLI::App* speed_app = app.add_subcommand(
      "speed", "Measure allocmark itself: overhead per event, replay rate, memory");
  CLI::App* profile_app = app.add_subcommand(
      "profile", "Measure a device's memory calls, for a simulated device of its own");
  CLI::App* fidelity_app =
      app.add_subcommand("fidelity", "Say how much a generated workload is like a recorded one");
  add_list(list_app, &commands.list);
  add_run_axes(run_app, &commands.run);
  add_run_manner(run_app, &commands.run);
  add_run_output(run_app, &commands.run);
  add_ab(run_app, &commands.run);
  run_app->footer(kRunFooter);
  add_trace(trace_app, &commands.trace);
  add_explain(explain_app, &commands.explain);
  add_report(report_app, &commands.report);
  add_bundle(app.add_subcommand("bundle", "Pack a run, its report and its hashes for publishing"),
             &commands.bundle);
  add_check(app.add_subcommand("check", "Say whether a bundle can be relied on"), &commands.check);
  add_compare(compare_app, &commands.compare);
  add_confirm(compare_app, &commands.compare);
  add_parity(parity_app, &commands.parity);
  add_speed(speed_app, &commands.speed);
  add_qualify(app.add_subcommand("qualify", "Say whether this machine's GPUs are fit"),
              &commands.qualify);
  add_profile(profile_app, &commands.profile);
  add_fidelity(fidelity_app, &commands.fidelity);

  // Last, because subcommands take over the footer that is there when they are added.
  app.footer(kMainFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    std::ostringstream text;
    app.exit(success, text, text);
    line.text = text.str();
    return line;
  } catch (const CLI::ParseError& error) {
    throw_parse_error(error, app, {arguments.begin() + 1, arguments.end()});
  }
  keep_parsed(app, std::move(commands), arguments, line);
  return line;
}

}  // namespace allocmark

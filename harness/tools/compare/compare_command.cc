// 'allocmark compare BASE NEW': two runs held against each other; and 'allocmark compare
// --calibrate FILE RUN RUN...': how far apart runs of the same thing come. Reads results; times
// nothing.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "base/output_file.h"
#include "harness/shell/output_path.h"
#include "harness/shell/pages/compare_input.h"
#include "harness/shell/pages/comparison_options.h"
#include "harness/shell/pages/interleaved_session.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "harness/tools/compare/confirm.h"
#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "results/compare/interleaved.h"

namespace allocmark {
namespace {

void add_confirm(CLI::App* app, CompareCommand* command) {
  const char* group = "Confirmation";
  app->add_flag(
         "--confirm", command->confirm,
         "Run cells that look better or worse again, both sides in turn; the second result counts")
      ->group(group);
  app->add_option("--base-program", command->base_program,
                  "The allocmark that made BASE [the one its plan.json names]")
      ->group(group)
      ->type_name("PATH");
  app->add_option("--new-program", command->new_program, "The allocmark that made NEW")
      ->group(group)
      ->type_name("PATH");
  app->add_option("--confirm-out", command->confirm_out,
                  "New folder for the confirmation's results [beside NEW]")
      ->group(group)
      ->type_name("DIR");
  app->add_option("--passes", command->pass_count, "Timed passes of each process [the runs']")
      ->check(CLI::Range(1u, 100000u))
      ->group(group)
      ->type_name("N");
  app->add_option("-j,--jobs", command->job_count, "Processes at a time")
      ->check(CLI::Range(1u, 4096u))
      ->group(group)
      ->capture_default_str()
      ->type_name("J");
  add_rounds(app, group, &command->interleave);
}

ComparePolicy policy_of(const CompareCommand& command) {
  ComparePolicy policy = read_policy(command.policy, command.effect_min);
  if (command.scope == "exact") policy.scope = CompareScope::Exact;
  if (command.scope == "timed") policy.scope = CompareScope::Timed;
  if (command.no_calibration) {
    policy.calibration_required = false;
    policy.default_bounds = false;
  }
  return policy;
}

Detail detail_of(const CompareCommand& command) {
  if (command.all) return Detail::All;
  return command.details ? Detail::Rows : Detail::Findings;
}

void write_as_asked(const CompareCommand& command, const Comparison& comparison,
                    const TextSink& sink) {
  if (command.format == "json") return write_comparison_json(comparison, sink);
  if (command.format == "junit") return sink(render_comparison_junit(comparison));
  if (command.format == "github") return sink(render_github_benchmark(comparison));
  if (command.format == "bencher") return sink(render_bencher(comparison));
  write_comparison_table(comparison, detail_of(command), sink);
}

void print(std::string_view text) { fmt::print("{}", text); }

void print_table(const CompareCommand& command, const Comparison& comparison) {
  if (known_width(stdout) > 0) {
    print_fitted(stdout, render_comparison(comparison, detail_of(command)));
  } else {
    write_comparison_table(comparison, detail_of(command), print);
  }
}

ExitCode write_calibration(const CompareCommand& command) {
  std::vector<RunSide> runs;
  for (const std::string& path : command.runs) runs.push_back(read_side(path, path));
  const Calibration calibration = calibrate(runs);
  write_file(command.calibrate, to_json(calibration));
  for (const NoiseBound& bound : calibration.bounds) {
    fmt::print("{}: {} pairs of cells differ by {:.2f} % in the median; bound {:.2f} %\n",
               bound.number, bound.pair_count, bound.shift_median * 100, bound.shift_bound * 100);
  }
  fmt::print("calibration: {}\n", command.calibrate);
  return ExitCode::Pass;
}

// The findings are of what differs; all else that is written lists every number.
NumbersKept numbers_kept(const CompareCommand& command) {
  const bool findings = command.format == "table" && !command.all && !command.confirm;
  return findings ? NumbersKept::Differing : NumbersKept::All;
}

ExitCode show(const CompareCommand& command, const Comparison& comparison) {
  if (command.out.empty()) {
    command.format == "table" ? print_table(command, comparison)
                              : write_as_asked(command, comparison, print);
  } else {
    OutputFile file(command.out);
    write_as_asked(command, comparison, [&](std::string_view piece) { file.write(piece); });
    file.finish();
    print_table(command, comparison);
  }
  return comparison.exit_code;
}

// A run compared with itself passes whatever it holds, so a gate that does it by mistake gates
// nothing.
void refuse_itself(const std::vector<std::string>& runs) {
  std::error_code error;
  if (!std::filesystem::equivalent(runs[0], runs[1], error) || error) return;
  throw UsageError({.what = "BASE and NEW are the same run",
                    .where = "allocmark compare",
                    .wanted = "two runs",
                    .got = runs[0],
                    .next = "a comparison of a run with itself would say nothing"});
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
                  "JSON file that says how far apart two equal runs come on this machine")
      ->type_name("FILE");
  app->add_option("--calibrate", command->calibrate,
                  "Write a calibration from two or more equal RUNs; compare nothing")
      ->type_name("FILE");
  app->add_flag("--no-calibration", command->no_calibration,
                "Judge times without a calibration and without the built-in bounds; only for "
                "interleaved runs");
  app->add_option("--min-effect", command->effect_min,
                  "Smallest change of a timed number that counts [3%]")
      ->type_name("SHARE");
  app->add_option("--only", command->scope,
                  "Only exact numbers (comparable between machines), or only timed ones")
      ->check(CLI::IsMember({"exact", "timed"}))
      ->type_name("exact|timed");
  add_format(app, &command->format,
             "table, json, junit, github (github-action-benchmark) or bencher",
             {"table", "json", "junit", "github", "bencher"});
  app->add_option("-o,--out", command->out, "Write the format to this file, print the table")
      ->type_name("FILE");
  add_force(app, &command->force);
  app->add_flag("--details", command->details,
                "List every number that is not the same, with its interval and cell");
  app->add_flag("--all", command->all, "List numbers that are the same, too");
  app->footer(
      "\nExit codes: 0 no regression, 1 a regression by the policy or a cell that crashed in NEW, "
      "2 "
      "usage,\n3 cells are missing or cannot be compared, or nothing could be decided, 6 a "
      "file.\n");
  add_confirm(app, command);
}

ExitCode run_compare(const CompareCommand& command) {
  if (!command.out.empty()) check_output_file(command.out, command.force, "--out");
  if (!command.calibrate.empty()) {
    check_output_file(command.calibrate, command.force, "--calibrate");
    return write_calibration(command);
  }
  const bool one_folder = command.runs.size() == 1 && is_interleaved(command.runs.front());
  if (command.runs.size() != 2 && !one_folder) {
    throw UsageError({.what = "a comparison is of two runs",
                      .where = "allocmark compare",
                      .wanted = "BASE NEW, or the folder of an A/B run",
                      .got = fmt::format("{} paths", command.runs.size()),
                      .next = "see: allocmark compare --help"});
  }
  const ComparePolicy policy = policy_of(command);
  if (one_folder) {
    return show(command, compare_interleaved(read_interleaved(command.runs.front()), policy));
  }
  refuse_itself(command.runs);
  std::optional<Calibration> calibration;
  if (!command.calibration.empty()) {
    calibration = calibration_from_json(read_file(command.calibration, kCalibrationInput),
                                        command.calibration);
  }
  const RunSide base = read_side("BASE", command.runs[0]);
  const RunSide now = read_side("NEW", command.runs[1]);
  Comparison comparison = compare_runs(base, now, policy, calibration, numbers_kept(command));
  if (command.confirm) confirm(command, policy, comparison);
  return show(command, comparison);
}

}  // namespace

extern const CommandEntry kCompareCommand;
constinit const CommandEntry kCompareCommand{
    "compare", "Say whether one run is better or worse than another",
    [](CLI::App* app) { return bind_command(app, add_compare, run_compare); }};

}  // namespace allocmark

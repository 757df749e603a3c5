// 'allocmark compare BASE NEW': two runs held against each other; and 'allocmark compare
// --calibrate FILE RUN RUN...': how far apart runs of the same thing come. Reads results; times
// nothing.
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/cli/commands.h"
#include "harness/cli/compare_input.h"
#include "harness/cli/confirm.h"
#include "harness/cli/interleaved_session.h"
#include "harness/cli/run_side.h"
#include "harness/run_folder.h"
#include "results/compare.h"
#include "results/compare_writers.h"
#include "results/interleaved.h"

namespace allocmark {
namespace {

ComparePolicy policy_of(const CompareCommand& command) {
  ComparePolicy policy = read_policy(command.policy, command.effect_min);
  if (command.scope == "exact") policy.scope = CompareScope::Exact;
  if (command.scope == "timed") policy.scope = CompareScope::Timed;
  if (command.no_calibration) policy.calibration_required = false;
  return policy;
}

std::string render(const CompareCommand& command, const Comparison& comparison) {
  if (command.format == "json") return render_comparison_json(comparison);
  if (command.format == "junit") return render_comparison_junit(comparison);
  if (command.format == "github") return render_github_benchmark(comparison);
  if (command.format == "bencher") return render_bencher(comparison);
  return render_comparison(comparison, command.all);
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

ExitCode show(const CompareCommand& command, const Comparison& comparison) {
  if (command.out.empty()) {
    fmt::print("{}", render(command, comparison));
  } else {
    write_file(command.out, render(command, comparison));
    fmt::print("{}", render_comparison(comparison, command.all));
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

}  // namespace

ExitCode compare_command(const CompareCommand& command) {
  if (!command.calibrate.empty()) return write_calibration(command);
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
    calibration = calibration_from_json(read_file(command.calibration), command.calibration);
  }
  const RunSide base = read_side("BASE", command.runs[0]);
  const RunSide now = read_side("NEW", command.runs[1]);
  Comparison comparison = compare_runs(base, now, policy, calibration);
  if (command.confirm) confirm(command, policy, comparison);
  return show(command, comparison);
}

}  // namespace allocmark

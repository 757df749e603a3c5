// 'allocmark compare BASE NEW': two runs held against each other; and 'allocmark compare
// --calibrate FILE RUN RUN...': how far apart runs of the same thing come. Reads results; times
// nothing.
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/cli/commands.h"
#include "harness/cli/run_side.h"
#include "harness/run_folder.h"
#include "results/compare.h"
#include "results/compare_writers.h"

namespace allocmark {
namespace {

// "3%" or "0.03".
double parse_share(const std::string& text) {
  std::string_view number = text;
  const bool percent = number.ends_with('%');
  if (percent) number.remove_suffix(1);
  double value = -1;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  const bool whole = error == std::errc{} && end == number.data() + number.size();
  const double share = percent ? value / 100 : value;
  if (whole && share >= 0 && share < 10) return share;
  throw UsageError({.what = "the smallest effect is no share",
                    .where = "--min-effect",
                    .wanted = "3% or 0.03",
                    .got = text,
                    .next = {}});
}

ComparePolicy policy_of(const CompareCommand& command) {
  ComparePolicy policy;
  if (!command.policy.empty()) policy = policy_from_json(read_file(command.policy), command.policy);
  if (!command.effect_min.empty()) policy.effect_min = parse_share(command.effect_min);
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

}  // namespace

ExitCode compare_command(const CompareCommand& command) {
  if (!command.calibrate.empty()) return write_calibration(command);
  if (command.runs.size() != 2) {
    throw UsageError({.what = "a comparison is of two runs",
                      .where = "allocmark compare",
                      .wanted = "BASE NEW",
                      .got = fmt::format("{} paths", command.runs.size()),
                      .next = "see: allocmark compare --help"});
  }
  const ComparePolicy policy = policy_of(command);
  std::optional<Calibration> calibration;
  if (!command.calibration.empty()) {
    calibration = calibration_from_json(read_file(command.calibration), command.calibration);
  }
  const RunSide base = read_side("BASE", command.runs[0]);
  const RunSide now = read_side("NEW", command.runs[1]);
  const Comparison comparison = compare_runs(base, now, policy, calibration);
  if (command.out.empty()) {
    fmt::print("{}", render(command, comparison));
  } else {
    write_file(command.out, render(command, comparison));
    fmt::print("{}", render_comparison(comparison, command.all));
  }
  return comparison.exit_code;
}

}  // namespace allocmark

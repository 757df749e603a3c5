// Goal: two runs of the same thing are not called different, and real slowdowns are found. Method:
// simulated runs whose passes look like measured ones (three kinds of latency, spread between runs
// and passes, disturbed passes), a fixed seed, and a calibration made as users make it. A program
// without a test framework: it is built with the release, since thousands of comparisons take long
// under a sanitizer. Exit code 1 where one of its lines says FAILED.
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include "results/compare/compare.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

RunSide side(const char* label, RunFile file) { return {.label = label, .file = std::move(file)}; }

Calibration simulated_calibration(const sample::NoisyPlan& like) {
  Random random(99);
  sample::NoisyPlan plan = like;
  plan.cell_count = 40;
  std::vector<RunSide> runs;
  for (int run = 0; run < 4; ++run) runs.push_back(side("A", sample::noisy_run(random, plan)));
  return calibrate(runs);
}

struct Calls {
  std::size_t number_count = 0, different = 0;
  std::size_t comparison_count = 0, failed = 0, found = 0;
};

Calls count_calls(const sample::NoisyPlan& base_plan, const sample::NoisyPlan& now_plan,
                  const std::string& number_name, std::size_t comparison_count) {
  const std::optional<Calibration> calibration = simulated_calibration(base_plan);
  Random random(7);
  Calls calls;
  for (std::size_t i = 0; i < comparison_count; ++i) {
    const Comparison comparison =
        compare_runs(side("BASE", sample::noisy_run(random, base_plan)),
                     side("NEW", sample::noisy_run(random, now_plan)), {}, calibration);
    std::size_t worse = 0;
    for (const CellComparison& cell : comparison.cells) {
      for (const NumberComparison& number : cell.numbers) {
        if (!number.timed) continue;
        ++calls.number_count;
        const bool is_worse = number.verdict == Verdict::Worse;
        calls.different += is_worse || number.verdict == Verdict::Better ? 1 : 0;
        worse += is_worse && number.name == number_name ? 1 : 0;
      }
    }
    ++calls.comparison_count;
    calls.failed += comparison.exit_code == ExitCode::Regression ? 1 : 0;
    calls.found += worse > 0 ? 1 : 0;
  }
  return calls;
}

bool holds(bool condition, const std::string& text) {
  fmt::print("{}: {}\n", condition ? "holds" : "FAILED", text);
  return condition;
}

// Of 1000 comparisons of the same thing at most 1 % of timed numbers are called different.
bool same_is_not_called_different() {
  bool held = true;
  for (const std::size_t pass_count : {std::size_t{3}, std::size_t{10}}) {
    const sample::NoisyPlan plan{.cell_count = 4, .pass_count = pass_count, .sample_count = 2000};
    const Calls calls = count_calls(plan, plan, "", 500);
    held &= holds(calls.number_count == std::size_t{500} * 4 * 2 &&
                      calls.different * 100 <= calls.number_count,
                  fmt::format("{} passes: {} of {} timed numbers, at most 1 % and all of 4000; {} "
                              "of {} comparisons failed",
                              pass_count, calls.different, calls.number_count, calls.failed,
                              calls.comparison_count));
  }
  return held;
}

// 3 passes find a slowdown that all cells share; one cell among many needs 10.
bool slowdowns_are_found(const std::string& number, std::size_t sample_count, double all,
                         double tail) {
  struct Setting {
    std::size_t pass_count, injected_cell_count;
  };
  bool held = true;
  for (const Setting& at : {Setting{3, 12}, Setting{10, 1}}) {
    const sample::NoisyPlan base{
        .cell_count = 12, .pass_count = at.pass_count, .sample_count = sample_count};
    sample::NoisyPlan now = base;
    now.injected.all = all;
    now.injected.tail = tail;
    now.injected_cell_count = at.injected_cell_count;
    const Calls calls = count_calls(base, now, number, 100);
    held &= holds(calls.found >= 95 && (tail > 0 || calls.failed >= calls.found),
                  fmt::format("{}, {} passes, {} of 12 cells: found in {} of {} runs, at least 95; "
                              "{} comparisons failed",
                              number, at.pass_count, at.injected_cell_count, calls.found,
                              calls.comparison_count, calls.failed));
  }
  return held;
}

}  // namespace

int main() {
  bool held = same_is_not_called_different();
  held &= slowdowns_are_found("allocate_latency_ns_p50", 4000, std::log(1.05), 0);
  held &= slowdowns_are_found("allocate_latency_ns_p99", 12000, 0, std::log(1.1));
  return held ? 0 : 1;
}

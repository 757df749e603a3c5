// The verdicts of cells, their order, and whether the comparison passes.
#include "results/compare/compare_conclude.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

#include <fmt/format.h>

namespace allocmark {
namespace {

void conclude_cells(const ComparePolicy& policy, Comparison& result) {
  std::fill(result.verdict_counts.begin(), result.verdict_counts.end(), std::size_t{0});
  for (CellComparison& cell : result.cells) {
    // Without numbers its verdict is what was found when the cells were matched.
    if (!cell.numbers.empty()) cell.verdict = Verdict::Same;
    for (NumberComparison& number : cell.numbers) {
      const bool reported = std::find(policy.report_only.begin(), policy.report_only.end(),
                                      number.name) != policy.report_only.end();
      number.gated = cell.gated && !reported && !number.excused;
      if (!number.excused) cell.verdict = std::min(cell.verdict, number.verdict);
    }
    ++result.verdict_counts[static_cast<std::size_t>(cell.verdict)];
  }
  std::stable_sort(result.cells.begin(), result.cells.end(),
                   [](const CellComparison& a, const CellComparison& b) {
                     if (a.verdict != b.verdict) return a.verdict < b.verdict;
                     return a.change_abs_max() > b.change_abs_max();
                   });
}

// More failures or bytes left behind that may be chance are no pass.
bool is_unsafe(const NumberComparison& number) {
  return number.gated && number.safety && number.verdict == Verdict::Undecided;
}

void decide(const ComparePolicy& policy, Comparison& result) {
  result.failures = result.faults;
  result.exit_code = ExitCode::Pass;
  result.regression_count = 0;
  std::array<std::size_t, kVerdictCount> gated_counts{};
  std::size_t judged_count = 0;
  std::size_t decided_count = 0;
  std::size_t unsafe_count = 0;
  for (const CellComparison& cell : result.cells) {
    std::set<Verdict> verdicts;
    if (cell.numbers.empty() && cell.gated) verdicts.insert(cell.verdict);
    for (const NumberComparison& number : cell.numbers) {
      // Numbers that can fail nothing are no reason to pass.
      if (!number.gated) continue;
      verdicts.insert(number.verdict);
      // They stand beside times that somebody asked for alone.
      if (policy.scope == CompareScope::Timed && number.safety) continue;
      judged_count += number.verdict != Verdict::NotComparable ? 1 : 0;
      decided_count +=
          number.verdict != Verdict::NotComparable && number.verdict != Verdict::Undecided ? 1 : 0;
    }
    const std::size_t same_count = cell.gated ? cell.same_left_out : 0;
    judged_count += same_count;
    decided_count += same_count;
    unsafe_count += std::ranges::any_of(cell.numbers, is_unsafe) ? 1 : 0;
    for (const Verdict verdict : verdicts) ++gated_counts[static_cast<std::size_t>(verdict)];
  }
  const auto fail_on = [&](Verdict verdict, bool fails, ExitCode code) {
    const std::size_t count = gated_counts[static_cast<std::size_t>(verdict)];
    if (!fails || count == 0) return;
    result.failures.push_back(
        fmt::format("{} cells have a number that is {}", count, to_string(verdict)));
    if (result.exit_code == ExitCode::Pass) result.exit_code = code;
    if (code == ExitCode::Regression) result.regression_count += count;
  };
  fail_on(Verdict::Worse, true, ExitCode::Regression);
  fail_on(Verdict::Changed, policy.fail_on_changed, ExitCode::Regression);
  fail_on(Verdict::Undecided, policy.fail_on_undecided, ExitCode::Regression);
  fail_on(Verdict::NotComparable, policy.fail_on_not_comparable, ExitCode::CellsIncomplete);
  if (unsafe_count > 0) {
    result.failures.push_back(
        fmt::format("{} cells may run out of memory, leak or race more often, which is not decided",
                    unsafe_count));
  }
  if (!result.incomplete.empty()) {
    result.failures.push_back(
        fmt::format("{} cells have no result to compare", result.incomplete.size()));
  }
  if (judged_count == 0) {
    result.failures.push_back("nothing was compared, which is not a pass");
  } else if (decided_count == 0) {
    result.failures.push_back(
        "no number could be decided, which is not a pass: more passes, a calibration or --confirm "
        "can decide");
  }
  if (!result.failures.empty() && result.exit_code == ExitCode::Pass) {
    result.exit_code = ExitCode::CellsIncomplete;
  }
}

}  // namespace

void conclude(const ComparePolicy& policy, Comparison& comparison) {
  conclude_cells(policy, comparison);
  decide(policy, comparison);
}

}  // namespace allocmark

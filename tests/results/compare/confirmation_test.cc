// Goal: what a comparison calls, or nearly calls, is measured again, and then the second
// measurement counts. Method: verdicts written into a comparison of quiet rounds.
#include <cmath>
#include <optional>
#include <vector>

#include "results/compare/interleaved.h"
#include "tests/catch.h"
#include "tests/support/made_rounds.h"

using namespace allocmark;
using namespace allocmark::made_rounds;

TEST_CASE("suspects are what is called or near it, and exact differences with one round") {
  Comparison comparison = compared([](InterleavedRun&) {});
  CHECK(suspects(comparison, {}, 32).empty());
  for (CellComparison& cell : comparison.cells) {
    for (NumberComparison& item : cell.numbers) {
      if (cell.key.workload == "work0" && item.name == "allocate_latency_ns_p50") {
        item.verdict = Verdict::Undecided;
        item.change = 0.02;
      }
      if (cell.key.workload == "work1" && item.name == "placement_hash") {
        item.verdict = Verdict::Changed;
      }
    }
  }
  const std::vector<InterleavedCell> cells = suspects(comparison, {}, 32);
  REQUIRE(cells.size() == 2);
  for (const InterleavedCell& cell : cells) {
    CHECK(cell.round_count_max == (cell.base.workload == "work0" ? 32U : 1U));
  }
}

TEST_CASE(
    "a timed number is a suspect unless it is the same and hardly changes, or has no samples") {
  struct Case {
    Verdict verdict;
    std::optional<double> change;
    bool suspect;
  };
  for (const Case& at :
       {Case{Verdict::Worse, 0.05, true}, Case{Verdict::Better, -0.05, true},
        Case{Verdict::Undecided, 0.001, true}, Case{Verdict::Same, -0.021, true},
        Case{Verdict::Same, 0.009, false}, Case{Verdict::Undecided, std::nullopt, false},
        Case{Verdict::NotComparable, 0.2, false}}) {
    Comparison comparison = compared([](InterleavedRun&) {});
    NumberComparison& item = comparison.cells.front().numbers.back();
    REQUIRE(item.timed);
    item.verdict = at.verdict, item.change = at.change;
    INFO(to_string(at.verdict) << " " << at.change.value_or(-9));
    CHECK(suspects(comparison, {}, 32).size() == (at.suspect ? 1U : 0U));
  }
}

TEST_CASE("what the confirmation says counts") {
  Comparison first = compared([](InterleavedRun&) {});
  for (CellComparison& cell : first.cells) {
    for (NumberComparison& item : cell.numbers) {
      if (item.name == "allocate_latency_ns_p50") item.verdict = Verdict::Worse;
      if (cell.key.workload == "work1" && item.name == "oom_count") item.verdict = Verdict::Worse;
    }
  }
  Comparison cleared = first;
  apply_confirmation(compared([](InterleavedRun&) {}), {}, cleared);
  CHECK(number(cleared, "work0", "allocate_latency_ns_p50").verdict == Verdict::Same);
  // A request that failed once is no pass, whether or not it fails again.
  CHECK(number(cleared, "work1", "oom_count").verdict == Verdict::Undecided);
  CHECK(cleared.exit_code == ExitCode::CellsIncomplete);
  Comparison found = first;
  apply_confirmation(compare_interleaved(make_run({.injected_all = std::log(1.1)}), {}), {}, found);
  CHECK(found.exit_code == ExitCode::Regression);
  CHECK(number(found, "work0", "allocate_latency_ns_p50").verdict == Verdict::Worse);
  Comparison broken = first;
  apply_confirmation(compared([](InterleavedRun& run) { run.rounds.clear(); }), {}, broken);
  CHECK(broken.exit_code != ExitCode::Pass);
}

// Goal: more failed requests, memory left behind and cells without a result never pass, on any
// device, and the lines that say so let one act. Method: small runs that differ in one thing each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "tests/catch.h"
#include "tests/support/quiet_runs.h"

using namespace allocmark;
using namespace allocmark::quiet;

TEST_CASE(
    "nothing is compared with a result that BASE does not have, but a mended rule is better") {
  const auto against = [](CellStatus status, const char* reason) {
    RunFile base = quiet_run();
    base.cells[0] = sample::not_measured(base.cells[0], status, reason);
    return compare_runs(side("BASE", base), side("NEW", quiet_run()), {}, std::nullopt);
  };
  for (const CellStatus status : {CellStatus::Crashed, CellStatus::TimedOut, CellStatus::Failed}) {
    const Comparison dead = against(status, "ended by SIGKILL");
    CHECK(count(dead, Verdict::NotComparable) == 1);
    CHECK(dead.exit_code == ExitCode::CellsIncomplete);
    CHECK(contains(text_of(dead), "ended by SIGKILL"));
  }
  const Comparison mended = against(CellStatus::Failed, "broken rule: blocks overlap");
  CHECK(count(mended, Verdict::Better) == 1);
  CHECK(mended.exit_code == ExitCode::Pass);
  RunFile base = quiet_run();
  base.cells[0] = sample::not_measured(base.cells[0], CellStatus::Failed, "broken rule: overlap");
  const Comparison both = compare_runs(side("BASE", base), side("NEW", base), {}, std::nullopt);
  CHECK(count(both, Verdict::NotComparable) == 1);
  CHECK(both.exit_code == ExitCode::CellsIncomplete);
}

TEST_CASE("what others may take from a GPU is not compared exactly, and a leak in every pass is") {
  RunFile base = quiet_run(1);
  base.cells[0].key.device = "cuda:0";
  for (PassSummary& pass : base.cells[0].passes) pass.residue_bytes = 0;
  base.cells[0].residue_bytes = 0;
  const auto left_behind = [&](std::vector<std::uint64_t> by_pass) {
    RunFile now = base;
    ++*now.cells[0].device_bytes_peak;
    for (std::size_t i = 0; i < by_pass.size(); ++i) {
      now.cells[0].passes[i].residue_bytes = by_pass[i];
      now.cells[0].residue_bytes = std::max(now.cells[0].residue_bytes.value_or(0), by_pass[i]);
    }
    return compare_runs(side("BASE", base), side("NEW", now), {.scope = CompareScope::Exact}, {});
  };
  CHECK(left_behind({}).exit_code == ExitCode::Pass);
  CHECK(number(left_behind({0, 512, 0}).cells.front(), "residue_bytes").verdict ==
        Verdict::Undecided);
  CHECK(left_behind({0, 512, 0}).exit_code == ExitCode::CellsIncomplete);
  CHECK(left_behind({512, 1024, 512}).exit_code == ExitCode::Regression);
}

TEST_CASE("more failed requests never pass, whether or not the passes are alike") {
  const auto failing = [](std::vector<std::uint64_t> base_counts,
                          std::vector<std::uint64_t> now_counts) {
    const auto fill = [](RunFile& run, const std::vector<std::uint64_t>& counts) {
      CellResult& cell = run.cells[0];
      cell.oom_count = counts[0];
      cell.passes.resize(counts.size() - 1, cell.passes.front());
      for (std::size_t i = 1; i < counts.size(); ++i) cell.passes[i - 1].oom_count = counts[i];
      if (std::count(counts.begin(), counts.end(), counts[0]) != std::ssize(counts)) {
        cell.warnings = {"not deterministic: timed pass 1 had other placements or failures"};
      }
    };
    RunFile base = quiet_run(1);
    RunFile now = quiet_run(1);
    fill(base, base_counts), fill(now, now_counts);
    return compare_runs(side("BASE", base), side("NEW", now), {.scope = CompareScope::Exact}, {});
  };
  // A cache without trim: the first pass differs from the next.
  CHECK(failing({0, 0, 0, 0}, {9719, 300, 300, 300}).exit_code == ExitCode::Regression);
  CHECK(failing({435, 0, 0, 0}, {435, 0, 0, 0}).exit_code != ExitCode::Regression);
  const Comparison open = failing({3, 0, 0, 0}, {5, 0, 0, 0});
  CHECK(number(open.cells.front(), "oom_count").verdict == Verdict::Undecided);
  CHECK(open.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(render_comparison(open, Detail::Findings), "trim:SYMBOL"));
  // Random on both sides.
  CHECK(failing({7, 9, 4, 8}, {8, 5, 7, 6}).exit_code != ExitCode::Regression);
  CHECK(failing({7, 9, 4, 8}, {18, 15, 17, 16}).exit_code == ExitCode::Regression);
}

TEST_CASE("times are not compared where one side failed requests, and the line says why") {
  const Comparison comparison = compared([](RunFile& now) {
    now.cells[0].oom_count = 3;
    slow_down(now.cells[0], 0.5);
  });
  const NumberComparison& p50 = number(comparison.cells.front(), "allocate_latency_ns_p50");
  CHECK(p50.verdict == Verdict::NotComparable);
  CHECK_FALSE(p50.gated);
  CHECK(comparison.exit_code == ExitCode::Regression);
  CHECK(contains(render_comparison(comparison, Detail::Findings), "not compared"));
  // Serving more is no failure, though times cannot be compared either.
  RunFile base = quiet_run();
  base.cells[0].oom_count = 3;
  const Comparison better = compare_runs(side("BASE", std::move(base)), side("NEW", quiet_run()),
                                         {}, quiet_calibration());
  CHECK(better.exit_code == ExitCode::Pass);
}

TEST_CASE("findings have one line each, at most 100 columns wide, and say what to do") {
  const Comparison comparison = compared([](RunFile& now) {
    now.cells[0].oom_count = 435;
    now.cells[1].residue_bytes = 250 << 20;
    slow_down(now.cells[2], 1.5);
  });
  const std::string text = render_comparison(comparison, Detail::Findings);
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    INFO(text.substr(begin, end - begin));
    CHECK(end - begin <= 100);
    begin = end + 1;
  }
  CHECK(contains(text, "failed requests 0 -> 435"));
  CHECK(contains(text, "left behind 0 B -> 250 MiB"));
  CHECK(contains(text, "a leak"));
  CHECK(contains(text, "exact"));
}

TEST_CASE("names that services follow hold no folders and no sides") {
  CellComparison cell{.key = sample::key()};
  cell.key.allocator = "pluggable";
  cell.key.conf = "library:/home/me/base.so,malloc:m,free:f";
  CHECK(contains(service_name(cell.key), "/pluggable/library:base.so,malloc:m,free:f/"));
  cell.now_key = cell.key;
  cell.now_key->conf = "library:/home/me/new.so,malloc:m,free:f";
  CHECK_FALSE(contains(service_name(cell), ".so"));
  CHECK(contains(service_name(cell), "/pluggable/sim:h200/1.05x/seed:"));
}

TEST_CASE("cells that crashed, are missing or were never run fail the comparison") {
  const auto set_status = [](CellStatus status) {
    return [=](RunFile& now) {
      now.cells[0] = sample::not_measured(now.cells[0], status, "signal 11 <b>");
    };
  };
  for (const CellStatus status :
       {CellStatus::Crashed, CellStatus::Failed, CellStatus::TimedOut, CellStatus::Skipped}) {
    const Comparison comparison = compared(set_status(status));
    CHECK(comparison.exit_code == ExitCode::Regression);
    CHECK(comparison.cells.front().verdict == Verdict::Worse);
    CHECK(contains(text_of(comparison), "signal 11"));
  }
  // Nobody's fault, and no pass.
  const Comparison interrupted = compared(set_status(CellStatus::Interrupted));
  CHECK(interrupted.exit_code == ExitCode::CellsIncomplete);
  CHECK(interrupted.incomplete.size() == 1);
  const Comparison missing = compared([](RunFile& now) { now.cells.pop_back(); });
  CHECK(missing.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(missing), "NEW: the cell is missing"));
  CHECK_FALSE(contains(text_of(missing), "it is there as"));
  // A release of the same allocator is another simulation, but worth a word.
  const Comparison released =
      compared([](RunFile& now) { now.cells.back().key.allocator += "@2.11"; });
  CHECK(released.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(released), "it is there as caching@2.11"));

  RunSide base = side("BASE", quiet_run());
  RunSide now = side("NEW", quiet_run());
  base.planned = {base.file.cells[0].key, sample::key()};
  now.planned = base.planned;
  const Comparison unfinished = compare_runs(base, now, {}, std::nullopt);
  CHECK(unfinished.exit_code == ExitCode::CellsIncomplete);
  CHECK(unfinished.incomplete.size() == 1);
  CHECK(contains(text_of(unfinished), "still being written"));
}

TEST_CASE("cells that neither run could do are no matter") {
  RunFile base = quiet_run();
  base.cells[1] = sample::not_measured(base.cells[1], CellStatus::Skipped, "no library");
  const Comparison comparison =
      compare_runs(side("BASE", base), side("NEW", base), {}, std::nullopt);
  CHECK(comparison.skipped_count == 1);
  CHECK(comparison.exit_code == ExitCode::Pass);
}

TEST_CASE("a changed peak of reserved memory names the regret of both sides, where both know it") {
  const auto reason_of = [](std::optional<std::uint64_t> packed_bytes_of_base) {
    RunFile base = quiet_run(1);
    CellResult& cell = base.cells[0];
    cell.status = CellStatus::Ok, cell.oom_count = 0, cell.oom_first.reset();
    cell.requested_bytes_peak = 100 * kMiB;
    cell.reserved_bytes_peak = 110 * kMiB;
    RunFile now = base;
    cell.packed_bytes = packed_bytes_of_base, cell.rounded_bytes_peak.reset();
    now.cells[0].packed_bytes = 100 * kMiB;
    now.cells[0].reserved_bytes_peak = 150 * kMiB;
    const Comparison comparison =
        compare_runs(side("BASE", std::move(base)), side("NEW", std::move(now)), {}, std::nullopt);
    return number(comparison.cells.front(), "reserved_bytes_peak").reason.text();
  };
  CHECK(reason_of(100 * kMiB) == "regret 10.0 % -> 50.0 %");
  CHECK(reason_of(std::nullopt).empty());  // a file from before schema 1.15
}

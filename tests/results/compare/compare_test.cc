// Goal: every pair of runs gets the verdict and exit code that it deserves, and no pair that cannot
// be compared passes. Method: small runs that differ in one thing each.
#include "results/compare/compare.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "results/compare/compare_writers.h"
#include "tests/catch.h"
#include "tests/support/quiet_runs.h"

using namespace allocmark;
using namespace allocmark::quiet;

TEST_CASE("a run compared with itself is the same everywhere and passes") {
  const Comparison comparison = compared([](RunFile&) {});
  CHECK(comparison.exit_code == ExitCode::Pass);
  CHECK(comparison.failures.empty());
  CHECK(count(comparison, Verdict::Same) == 3);
  CHECK(contains(text_of(comparison), "passed"));
}

TEST_CASE("a single other placement is always found, and fails where the policy says so") {
  const auto move_one = [](RunFile& now) { now.cells[1].placement_hash = "00000000000000bc"; };
  const Comparison comparison = compared(move_one);
  CHECK(count(comparison, Verdict::Changed) == 1);
  CHECK(comparison.cells.front().key.workload == "work1");
  CHECK(comparison.exit_code == ExitCode::Pass);
  CHECK(contains(text_of(comparison), "placement_hash"));
  CHECK(compared(move_one, {.fail_on_changed = true}).exit_code == ExitCode::Regression);
}

TEST_CASE("exact numbers decide by a single byte, call or failed request") {
  struct Case {
    const char* name;
    std::function<void(CellResult&)> change;
    Verdict verdict;
  };
  const std::vector<Case> cases{
      {"reserved_bytes_peak", [](CellResult& c) { ++*c.reserved_bytes_peak; }, Verdict::Worse},
      {"reserved_bytes_peak", [](CellResult& c) { --*c.reserved_bytes_peak; }, Verdict::Better},
      {"oom_count", [](CellResult& c) { ++c.oom_count; }, Verdict::Worse},
      {"device_free_count", [](CellResult& c) { ++*c.device_free_count; }, Verdict::Worse},
      {"driver_calls.cudaMalloc",
       [](CellResult& c) {
         c.driver_calls = {{"cudaFree", 10}, {"cudaMalloc", 12}};
       },
       Verdict::Worse},
      {"driver_calls.cudaDeviceSynchronize",
       [](CellResult& c) {
         c.driver_calls = {{"cudaDeviceSynchronize", 1}, {"cudaFree", 10}, {"cudaMalloc", 11}};
       },
       Verdict::Worse},
      {"driver_calls.cudaMallocAsync",
       [](CellResult& c) {
         c.driver_calls = {{"cudaFree", 10}, {"cudaMallocAsync", 11}};
       },
       Verdict::Changed},
      {"residue_bytes", [](CellResult& c) { c.residue_bytes = 512; }, Verdict::Worse},
      {"status", [](CellResult& c) { c.status = CellStatus::OomStopped; }, Verdict::Worse},
      {"counters.num_ooms",
       [](CellResult& c) {
         c.counters = {{"num_ooms", 1}};
       },
       Verdict::Changed},
      {"allocated_bytes_peak", [](CellResult& c) { c.allocated_bytes_peak.reset(); },
       Verdict::Changed},
  };
  for (const Case& at : cases) {
    INFO(at.name);
    const Comparison comparison = compared([&](RunFile& now) { at.change(now.cells[2]); });
    CHECK(comparison.cells.front().key.workload == "work2");
    CHECK(number(comparison.cells.front(), at.name).verdict == at.verdict);
    CHECK((comparison.exit_code == ExitCode::Regression) == (at.verdict == Verdict::Worse));
  }
}

TEST_CASE("a cell whose own passes differ proves nothing exact") {
  const Comparison comparison = compared([](RunFile& now) {
    ++*now.cells[0].reserved_bytes_peak;
    now.cells[0].warnings = {"not deterministic: timed pass 1 had other placements or failures"};
  });
  CHECK(count(comparison, Verdict::Undecided) == 1);
  CHECK(comparison.exit_code == ExitCode::Pass);
  CHECK(
      contains(text_of(comparison), "passed as far as it is decided: 1 of 3 cells are undecided"));
}

TEST_CASE("a slower run is worse, a faster one better, and a small change is neither") {
  const auto scaled = [](double factor) {
    return compared([&](RunFile& now) {
      for (CellResult& cell : now.cells) slow_down(cell, factor);
    });
  };
  const Comparison slower = scaled(1.08);
  CHECK(slower.exit_code == ExitCode::Regression);
  CHECK(count(slower, Verdict::Worse) == 3);
  const NumberComparison& p50 = number(slower.cells.front(), "allocate_latency_ns_p50");
  CHECK(*p50.change == Approx(0.08).margin(0.012));
  CHECK(*p50.change_low < *p50.change);
  CHECK(*p50.change < *p50.change_high);
  CHECK(p50.base_interval->low < p50.base_interval->value);
  CHECK(scaled(0.92).exit_code == ExitCode::Pass);
  CHECK(count(scaled(0.92), Verdict::Better) == 3);
  CHECK(count(scaled(1.01), Verdict::Worse) == 0);
}

TEST_CASE("the wall time of a step is compared where the host's and the device's work are known") {
  const auto with_steps = [](double step_ns, std::uint64_t kernel_ns) {
    RunFile run = quiet_run();
    for (CellResult& cell : run.cells) {
      cell.host_ns_total = 1;
      cell.kernel_ns_total = kernel_ns;
      cell.step_ns_mean = step_ns;
      for (std::size_t index = 0; index < cell.passes.size(); ++index) {
        cell.passes[index].step_ns_mean = step_ns * (1 + 1e-4 * static_cast<double>(index));
      }
    }
    return run;
  };
  const auto verdicts = [&](double now_ns, std::uint64_t kernel_ns) {
    return compare_runs(side("BASE", with_steps(50e6, kernel_ns)),
                        side("NEW", with_steps(now_ns, kernel_ns)), {}, quiet_calibration());
  };
  const Comparison slower = verdicts(56e6, 1);
  CHECK(number(slower.cells.front(), "step_ns_mean").verdict == Verdict::Worse);
  CHECK(slower.exit_code == ExitCode::Regression);
  CHECK(contains(text_of(slower), "step_ns_mean"));
  CHECK(verdicts(50.1e6, 1).exit_code == ExitCode::Pass);
  CHECK(verdicts(56e6, 0).exit_code == ExitCode::Pass);
}

TEST_CASE("a machine whose runs differ by more than the change decides nothing") {
  RunFile slow = quiet_run();
  for (CellResult& cell : slow.cells) slow_down(cell, 1.08);
  Calibration noisy = quiet_calibration();
  for (NoiseBound& bound : noisy.bounds) bound.shift_bound = 0.5;
  const Comparison comparison =
      compare_runs(side("BASE", quiet_run()), side("NEW", slow), {}, noisy);
  CHECK(count(comparison, Verdict::Undecided) == 3);
  CHECK(contains(text_of(comparison), "differ by up to 50 % on this machine"));
}

TEST_CASE("a change within the clock's step is none") {
  const Comparison comparison = compared([](RunFile& now) {
    now.environment.clock_resolution_ns = 10;
    for (CellResult& cell : now.cells) slow_down(cell, 1.08);
  });
  CHECK(number(comparison.cells.front(), "allocate_latency_ns_p50").verdict == Verdict::Undecided);
  CHECK(contains(text_of(comparison), "not clear of the clock's step of 10 ns"));
}

TEST_CASE("too few samples or passes make no claim") {
  const Comparison few = compared([](RunFile& now) {
    for (PassSummary& pass : now.cells[0].passes) {
      pass.allocate_buckets.assign(1, {.index = 900, .count = 15});
    }
    now.cells[1].passes.resize(1);
  });
  CHECK(count(few, Verdict::Undecided) == 2);
  CHECK(contains(text_of(few), "15 samples in a pass, 20 are needed"));
  CHECK(contains(text_of(few), "fewer than two passes"));
  CHECK(few.exit_code == ExitCode::Pass);
}

TEST_CASE("results of schema 1.0 compare by their passes' stored quantiles") {
  const auto strip = [](RunFile& run) {
    for (CellResult& cell : run.cells) {
      for (PassSummary& pass : cell.passes) {
        pass.allocate_p50_ns = 40, pass.allocate_p99_ns = 4000;
        pass.allocate_buckets.clear();
      }
    }
  };
  RunFile base = quiet_run();
  strip(base);
  RunFile now = base;
  for (PassSummary& pass : now.cells[0].passes) pass.allocate_p50_ns = 44;
  const Comparison comparison =
      compare_runs(side("BASE", base), side("NEW", now), {}, quiet_calibration());
  CHECK(count(comparison, Verdict::Worse) == 1);
  CHECK_FALSE(number(comparison.cells[0], "allocate_latency_ns_p50").base_interval.has_value());
}

TEST_CASE("other work, another capacity or another machine is not comparable and says so") {
  const Comparison work =
      compared([](RunFile& now) { now.cells[0].trace_hash = "00000000000000ff"; });
  CHECK(count(work, Verdict::NotComparable) == 1);
  CHECK(work.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(work), "trace hash 00000000000000aa and 00000000000000ff"));
  const Comparison capacity = compared([](RunFile& now) { ++now.cells[0].capacity_bytes; });
  CHECK(count(capacity, Verdict::NotComparable) == 1);

  const auto other_host = [](RunFile& now) { now.environment.kernel = "6.9.0"; };
  RunFile moved = quiet_run();
  other_host(moved);
  const auto with = [&](const ComparePolicy& policy) {
    return compare_runs(side("BASE", quiet_run()), side("NEW", moved), policy, std::nullopt);
  };
  CHECK(count(with({}), Verdict::NotComparable) == 3);
  CHECK(contains(text_of(with({})), "kernel was '6.1.0', is '6.9.0'"));
  CHECK(with({}).exit_code == ExitCode::CellsIncomplete);
  CHECK(with({.scope = CompareScope::Exact}).exit_code == ExitCode::Pass);
  CHECK(with({.environment_ignored = {"kernel"}}).exit_code == ExitCode::Pass);
  CHECK(with({.fail_on_not_comparable = false}).exit_code == ExitCode::Pass);
}

TEST_CASE("hosts of another speed are named where host times are compared") {
  // What a fixed program takes on the two hosts, and on the profile's.
  const auto text = [](double base_ns, double now_ns, double base_profile_ns,
                       double now_profile_ns) {
    RunFile base = quiet_run();
    base.environment.host_reference_ns = base_ns;
    base.environment.profile_host_reference_ns = base_profile_ns;
    RunFile now = quiet_run();
    now.environment.host_reference_ns = now_ns;
    now.environment.profile_host_reference_ns = now_profile_ns;
    return text_of(compare_runs(side("BASE", base), side("NEW", now), {}, std::nullopt));
  };
  const std::string says = "as long on the host of NEW (host_reference_ns";
  CHECK(contains(text(300, 450, 0, 0), "takes 1.50 times " + says + " 300 and 450)"));
  CHECK(contains(text(300, 450, 0, 0), "nothing here has them for one host"));
  CHECK(contains(text(450, 300, 250, 250), "takes 0.67 times " + says));
  CHECK(contains(text(450, 300, 250, 250), "*_scaled_* fields are for one host"));
  CHECK(contains(text(450, 300, 250, 260), "nothing here has them for one host"));
  CHECK_FALSE(contains(text(300, 315, 250, 250), says));
  CHECK_FALSE(contains(text(0, 450, 250, 250), says));
}

TEST_CASE("a torn file and a comparison of nothing never pass") {
  const Comparison torn = compared([](RunFile& now) {
    now.torn = true;
    now.torn_line = 5;
  });
  CHECK(torn.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(torn), "line 5 is cut short"));
  const Comparison nothing =
      compare_runs(side("BASE", quiet_run(0)), side("NEW", quiet_run(0)), {}, std::nullopt);
  CHECK(nothing.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(nothing), "nothing was compared"));
  const Comparison only_new =
      compare_runs(side("BASE", quiet_run(0)), side("NEW", quiet_run()), {}, std::nullopt);
  CHECK(only_new.exit_code == ExitCode::CellsIncomplete);
}

TEST_CASE("cells whose passes did not decide alike are counted in the notes, side by side") {
  const Comparison comparison = compared([](RunFile& now) {
    now.cells[0].contents_oom_count = now.cells[0].oom_count + 1;
    now.cells[0].contents_placement_hash = "00000000000000ce";
    now.cells[1].contents_oom_count = now.cells[1].oom_count;
    now.cells[1].contents_placement_hash = now.cells[1].placement_hash;
    now.cells[2].warnings = {"not deterministic: timed pass 1 had other placements"};
  });
  const std::string text = text_of(comparison);
  CHECK(contains(text, "Looking into blocks changed what the allocator did in 1 of 3 cells"));
  CHECK(contains(text, "In 1 of 3 cells timed passes placed or refused otherwise"));
  CHECK(!contains(text_of(compared([](RunFile&) {})), "Looking into blocks"));
}

TEST_CASE("what the policy only reports does not fail, and its floors count") {
  const auto grow = [](RunFile& now) { *now.cells[0].reserved_bytes_peak += 1024; };
  CHECK(compared(grow, {.report_only = {"reserved_bytes_peak"}}).exit_code == ExitCode::Pass);
  CHECK(compared(grow, {.effect_min_by_number = {{"reserved_bytes_peak", 0.01}}}).exit_code ==
        ExitCode::Pass);
  CHECK(compared(grow, {.effect_min_by_number = {{"reserved_bytes_peak", 1e-9}}}).exit_code ==
        ExitCode::Regression);
}

TEST_CASE("what can fail nothing, or is all undecided, is no pass") {
  const auto only_null = [](RunFile& run) {
    for (CellResult& cell : run.cells) cell.key.allocator = "null";
  };
  RunFile base = quiet_run();
  RunFile now = quiet_run();
  only_null(base), only_null(now);
  const Comparison harness = compare_runs(side("BASE", base), side("NEW", now), {}, {});
  CHECK(harness.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(harness), "nothing was compared"));
  // Two passes that lie apart on both sides: nothing can be said of any number.
  const auto scatter = [](RunFile& run) {
    run.cells.resize(1);
    run.cells[0].passes.resize(2);
    slow_down(run.cells[0], 1.0);
    for (const LatencyBucket& bucket : run.cells[0].passes[0].allocate_buckets) {
      run.cells[0].passes[1].allocate_buckets.push_back(
          {.index = bucket.index + 1000, .count = bucket.count});
    }
    run.cells[0].passes[1].allocate_buckets.erase(
        run.cells[0].passes[1].allocate_buckets.begin(),
        run.cells[0].passes[1].allocate_buckets.end() -
            static_cast<std::ptrdiff_t>(run.cells[0].passes[0].allocate_buckets.size()));
  };
  base = quiet_run(), now = quiet_run();
  scatter(base), scatter(now);
  const Comparison open =
      compare_runs(side("BASE", base), side("NEW", now), {.scope = CompareScope::Timed}, {});
  CHECK(open.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(text_of(open), "no number could be decided"));
}

TEST_CASE("memory and calls are not judged where one side failed requests") {
  const auto served = [](RunFile& now) {
    CellResult& cell = now.cells[0];
    cell.oom_count = 3;
    *cell.reserved_bytes_peak -= 1024;
    *cell.device_allocate_count += 1;
  };
  const Comparison worse = compared(served);
  const CellComparison& cell = worse.cells.front();
  CHECK(number(cell, "oom_count").verdict == Verdict::Worse);
  CHECK(number(cell, "reserved_bytes_peak").verdict == Verdict::Changed);
  CHECK(contains(number(cell, "device_allocate_count").reason, "failed requests"));
  RunFile base = quiet_run();
  served(base);
  const Comparison better = compare_runs(side("BASE", std::move(base)), side("NEW", quiet_run()),
                                         {}, quiet_calibration());
  CHECK(number(better.cells.front(), "oom_count").verdict == Verdict::Better);
  CHECK(better.exit_code == ExitCode::Pass);
}

TEST_CASE("runs of plans with other passes say so") {
  const Comparison comparison = compared([](RunFile& now) { now.cells[0].pass_count = 7; });
  CHECK(contains(text_of(comparison), "1 cells have another number of passes"));
}

TEST_CASE("where the host was slower in one of two runs, so much more is the machine's") {
  const auto verdicts = [](double host_ratio) {
    RunFile base = quiet_run();
    RunFile slow = quiet_run();
    for (CellResult& cell : slow.cells) slow_down(cell, 1.10);
    for (CellResult& cell : base.cells) {
      for (PassSummary& pass : cell.passes) pass.host_reference_ns = 350;
    }
    for (CellResult& cell : slow.cells) {
      for (PassSummary& pass : cell.passes) pass.host_reference_ns = 350 * host_ratio;
    }
    return compare_runs(side("BASE", base), side("NEW", slow), {}, std::nullopt);
  };
  CHECK(verdicts(1).exit_code == ExitCode::Regression);
  CHECK(verdicts(1.02).exit_code == ExitCode::Regression);
  for (const double host_ratio : {0.90, 1.12}) {
    const Comparison disturbed = verdicts(host_ratio);
    CHECK(count(disturbed, Verdict::Worse) == 0);
    CHECK(count(disturbed, Verdict::Undecided) == 3);
    CHECK(disturbed.exit_code == ExitCode::Pass);
    CHECK(contains(disturbed.cells.front().numbers.back().reason, "slower in one of them"));
  }
}

TEST_CASE("a cell that is slower alone can be its process") {
  constexpr std::size_t kCellCount = 6;
  const auto verdicts = [](std::size_t slow_count, double factor) {
    RunFile slow = quiet_run(kCellCount);
    for (std::size_t i = 0; i < slow_count; ++i) slow_down(slow.cells[i], factor);
    return compare_runs(side("BASE", quiet_run(kCellCount)), side("NEW", slow), {}, std::nullopt);
  };
  const Comparison alone = verdicts(1, 1.15);
  CHECK(count(alone, Verdict::Worse) == 0);
  CHECK(contains(alone.cells.front().numbers.back().reason, "--confirm"));
  CHECK(verdicts(1, 1.30).exit_code == ExitCode::Regression);
  CHECK(verdicts(2, 1.15).exit_code == ExitCode::Regression);
  CHECK(count(verdicts(kCellCount, 1.10), Verdict::Worse) == kCellCount);
}

TEST_CASE("a line shows a change in plain figures") {
  const std::string slow = render_findings(compared([](RunFile& now) {
    for (CellResult& cell : now.cells) slow_down(cell, 40);
  }));
  CHECK(contains(slow, "+3"));
  CHECK_FALSE(contains(slow, "e+03"));
  const std::string larger =
      render_findings(compared([](RunFile& now) { *now.cells[0].reserved_bytes_peak += 512; }));
  CHECK(contains(larger, " + 512 B"));
}

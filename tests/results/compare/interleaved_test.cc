// Goal: runs in which two sides took turns give right verdicts: nothing for the same thing, the
// slowdown where there is one, an error or a failure where something is missing. Method: rounds
// made of noise like that of a busy machine, which both sides of a round share, and damage of each
// kind.
#include "results/compare/interleaved.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "results/cell_words.h"
#include "results/compare/compare_writers.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/made_rounds.h"
#include "tests/support/text_checks.h"

using namespace allocmark;
using namespace allocmark::made_rounds;

TEST_CASE("of the same thing on both sides at most 1 % of comparisons of 12 cells call anything") {
  std::size_t calling_count = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Comparison comparison = compare_interleaved(make_run({.cell_count = 12,
                                                                .round_count = 16,
                                                                .round_count_max = 16,
                                                                .sample_count = 600,
                                                                .seed = seed}),
                                                      {});
    std::size_t called = 0;
    for (const CellComparison& cell : comparison.cells) {
      for (const NumberComparison& item : cell.numbers) {
        if (!item.timed) continue;
        called += item.verdict == Verdict::Worse || item.verdict == Verdict::Better ? 1 : 0;
      }
    }
    calling_count += called > 0 ? 1 : 0;
  }
  INFO(calling_count << " of 100");
  CHECK(calling_count <= 1);
}

TEST_CASE(
    "5 % at P50 and 10 % at P99 of one cell are found in 95 % of runs with the default plan") {
  for (const bool tail : {false, true}) {
    std::size_t found = 0;
    constexpr std::size_t kRuns = 40;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
      const InterleavedRun run = make_run({.injected_all = tail ? 0 : std::log(1.05),
                                           .injected_tail = tail ? std::log(1.10) : 0,
                                           .seed = seed});
      const Comparison comparison = compare_interleaved(run, {});
      const NumberComparison& slowed =
          number(comparison, "work0", tail ? "allocate_latency_ns_p99" : "allocate_latency_ns_p50");
      found += slowed.verdict == Verdict::Worse ? 1 : 0;
      if (slowed.verdict == Verdict::Worse) CHECK(comparison.exit_code == ExitCode::Regression);
    }
    INFO((tail ? "P99: " : "P50: ") << found << " of " << kRuns);
    CHECK(found >= 38);
  }
}

TEST_CASE("looks are at the first number of rounds, its doubles and the most") {
  InterleavedPlan plan{.round_count = 16, .round_count_max = 32};
  CHECK(look_rounds(plan) == std::vector<std::uint32_t>{16, 32});
  plan.round_count_max = 100;
  CHECK(look_rounds(plan) == std::vector<std::uint32_t>{16, 32, 64, 100});
  plan.round_count = 100;
  CHECK(look_rounds(plan) == std::vector<std::uint32_t>{100});
}

TEST_CASE("looks share the error, whether or not a cell stopped at the first") {
  const auto widths = [](std::uint32_t first_look) {
    const Comparison comparison = compared([&](InterleavedRun& run) {
      run.plan.round_count = first_look;
      run.plan.round_count_max = 12;
    });
    return number(comparison, "work0", "allocate_latency_ns_p50");
  };
  const NumberComparison once = widths(12);
  const NumberComparison twice = widths(6);
  REQUIRE((once.p_value.has_value() && twice.p_value.has_value()));
  CHECK(*twice.p_value == Approx(std::min(1.0, 2 * *once.p_value)));
  CHECK(*twice.change_high - *twice.change_low > *once.change_high - *once.change_low);
}

TEST_CASE("a change below an eighth of the clock's step is not called") {
  const auto at_step = [](double clock_step_ns) {
    InterleavedRun run = make_run({.round_count = 12,
                                   .round_count_max = 12,
                                   .sample_count = 20000,
                                   .injected_all = std::log(1.05),
                                   .noise = 0.1});
    // The work of 35 ns is 1.75 ns slower.
    for (Environment& environment : run.environments) {
      environment.clock_resolution_ns = clock_step_ns;
    }
    return number(compare_interleaved(run, {}), "work0", "allocate_latency_ns_p50");
  };
  CHECK(at_step(0.5).verdict == Verdict::Worse);
  CHECK(at_step(24).verdict == Verdict::Undecided);
  CHECK(contains(at_step(24).reason, "eighth of the clock's step"));
}

TEST_CASE("only cells that rounds can decide go on") {
  InterleavedRun run = make_run({.round_count = 4, .round_count_max = 8});
  std::erase_if(run.rounds, [](const RoundResult& result) { return result.round >= 4; });
  run.plan.round_count_max = 1'000'000;
  CHECK(cells_to_go_on(run, {}).size() == 3);
  // With a factor of ten as the smallest effect everything is the same already.
  CHECK(cells_to_go_on(run, {.effect_min = 9}).empty());
}

TEST_CASE("cells that twice as many rounds as there may be would not decide do not go on") {
  InterleavedRun run = make_run({.round_count = 4, .round_count_max = 8, .noise = 10});
  std::erase_if(run.rounds, [](const RoundResult& result) { return result.round >= 4; });
  CHECK(cells_to_go_on(run, {}).empty());
  run.plan.round_count_max = 1'000'000;
  CHECK(cells_to_go_on(run, {}).size() == 3);
}

TEST_CASE(
    "a single other placement is always found, and rounds that differ among themselves are not") {
  const auto move = [](InterleavedRun& run) {
    for (RoundResult& result : run.rounds) {
      const bool moved = result.side == 1 && result.cell.key.workload == "work1";
      if (moved) result.cell.placement_hash = "00000000000000bc";
    }
  };
  const Comparison moved = compared(move, {.fail_on_changed = true});
  CHECK(number(moved, "work1", "placement_hash").verdict == Verdict::Changed);
  CHECK(number(moved, "work0", "placement_hash").verdict == Verdict::Same);
  CHECK(moved.exit_code == ExitCode::Regression);
  const Comparison unsteady = compared([](InterleavedRun& run) {
    std::size_t count = 0;
    for (RoundResult& result : run.rounds) {
      if (result.side == 1) result.cell.placement_hash = std::to_string(count++);
    }
  });
  CHECK(number(unsteady, "work1", "placement_hash").verdict == Verdict::Undecided);
  // One later round that took more memory is enough.
  const Comparison grown = compared([](InterleavedRun& run) {
    RoundResult& last = run.rounds.back();
    last.cell.reserved_bytes_peak = last.cell.reserved_bytes_peak.value_or(0) + 1;
  });
  CHECK(std::ranges::any_of(grown.cells, [](const CellComparison& cell) {
    return std::ranges::any_of(cell.numbers, [](const NumberComparison& item) {
      return item.name == "reserved_bytes_peak" && item.verdict == Verdict::Undecided;
    });
  }));
}

TEST_CASE("passes that differ alike in every round are no chance") {
  // A cache that stays between passes: the first pass of each process fails, the next do not.
  const auto fail_first = [](std::uint64_t base_count, std::uint64_t now_count, bool at_random) {
    return compared([=](InterleavedRun& run) {
      for (RoundResult& result : run.rounds) {
        const std::uint64_t chance = at_random ? (result.round * 7 + result.side * 3) % 11 : 0;
        result.cell.oom_count = (result.side == 0 ? base_count : now_count) + chance;
        for (PassSummary& pass : result.cell.passes) pass.oom_count = 0;
        result.cell.warnings = {"not deterministic: timed pass 1 had other placements or failures"};
        if (at_random) result.cell.placement_hash = std::to_string(chance);
      }
    });
  };
  const Comparison same = fail_first(435, 435, false);
  CHECK(same.exit_code == ExitCode::Pass);
  const Comparison more = fail_first(0, 435, false);
  CHECK(number(more, "work1", "oom_count").verdict == Verdict::Worse);
  CHECK(more.exit_code == ExitCode::Regression);
  CHECK(number(more, "work1", "allocate_latency_ns_p50").verdict == Verdict::NotComparable);
  const Comparison chance = fail_first(40, 40, true);
  CHECK(number(chance, "work1", "oom_count").verdict != Verdict::Worse);
  CHECK(number(fail_first(40, 52, true), "work1", "oom_count").verdict == Verdict::Worse);
}

TEST_CASE("an undecided number says how many rounds would tell") {
  const InterleavedRun run = make_run({.round_count = 12, .round_count_max = 12});
  std::size_t open_count = 0;
  for (const CellComparison& cell : compare_interleaved(run, {}).cells) {
    for (const NumberComparison& item : cell.numbers) {
      if (!item.timed || item.verdict != Verdict::Undecided) continue;
      ++open_count;
      REQUIRE(item.rounds_needed.has_value());
      CHECK(*item.rounds_needed > 12);
    }
  }
  CHECK(open_count > 0);
}

TEST_CASE("a process without a result, a missing cell or a cut line fails the comparison") {
  const auto crash = [](InterleavedRun& run) {
    for (RoundResult& result : run.rounds) {
      if (result.round != 5 || result.side != 1 || result.cell.key.workload != "work2") continue;
      result.cell = sample::not_measured(result.cell, CellStatus::Crashed, "signal 11");
    }
  };
  const Comparison crashed = compared(crash);
  CHECK(crashed.cells.front().verdict == Verdict::Worse);
  CHECK(contains(crashed.cells.front().reason, "B: crashed: signal 11"));
  CHECK(crashed.exit_code == ExitCode::Regression);
  const Comparison base_died = compared([](InterleavedRun& run) {
    for (RoundResult& result : run.rounds) {
      if (result.round != 5 || result.side != 0 || result.cell.key.workload != "work2") continue;
      result.cell = sample::not_measured(result.cell, CellStatus::TimedOut, "ended after 600 s");
    }
  });
  CHECK(base_died.cells.front().verdict == Verdict::NotComparable);
  CHECK(base_died.exit_code == ExitCode::CellsIncomplete);
  const Comparison missing = compared([](InterleavedRun& run) {
    std::erase_if(run.rounds, [](const RoundResult& result) {
      return result.side == 1 && result.cell.key.workload == "work2";
    });
  });
  CHECK(missing.incomplete.size() == 1);
  CHECK(missing.exit_code == ExitCode::CellsIncomplete);
  CHECK(compared([](InterleavedRun& run) { run.torn = true; }).exit_code ==
        ExitCode::CellsIncomplete);
  const Comparison nothing = compared([](InterleavedRun& run) { run.rounds.clear(); });
  CHECK(nothing.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(render_comparison(nothing, Detail::Rows), "nothing was compared"));
}

TEST_CASE("a run that was broken off between looks is no pass, whole as its lines are") {
  const auto cut_at = [](std::uint32_t round_count) {
    InterleavedRun run = make_run({.round_count = 6, .round_count_max = 12, .noise = 0.1});
    std::erase_if(run.rounds,
                  [&](const RoundResult& result) { return result.round >= round_count; });
    return compare_interleaved(run, {.effect_min = 0.5});
  };
  CHECK(cut_at(12).exit_code == ExitCode::Pass);
  CHECK(cut_at(6).exit_code == ExitCode::Pass);
  for (const std::uint32_t between : {1U, 5U, 7U, 11U}) {
    const Comparison broken = cut_at(between);
    CHECK(broken.exit_code == ExitCode::CellsIncomplete);
    CHECK(
        contains(render_comparison(broken, Detail::Rows), "broken off or is still being written"));
  }
}

TEST_CASE("repeated processes are noted, and cells that nobody planned fail the comparison") {
  const Comparison repeated = compared([](InterleavedRun& run) {
    const RoundResult last = run.rounds.back();
    run.rounds.push_back(last);
  });
  CHECK(repeated.exit_code == ExitCode::Pass);
  CHECK(contains(render_comparison(repeated, Detail::Rows), "1 lines repeat a process"));
  const Comparison foreign =
      compared([](InterleavedRun& run) { run.rounds.back().cell.key.workload = "foreign"; });
  CHECK(foreign.exit_code == ExitCode::CellsIncomplete);
  CHECK(contains(render_comparison(foreign, Detail::Rows), "1 lines are of cells"));
}

TEST_CASE("too few samples or one round is no claim") {
  const Comparison few = compared([](InterleavedRun& run) {
    for (RoundResult& result : run.rounds) {
      for (PassSummary& pass : result.cell.passes) {
        pass.allocate_buckets = {{.index = 700, .count = 400}};
      }
    }
  });
  const NumberComparison& tail = number(few, "work0", "allocate_latency_ns_p99");
  CHECK(tail.verdict == Verdict::Undecided);
  CHECK(contains(tail.reason, "800 samples in a process, 1000 are needed"));
  CHECK(number(few, "work0", "allocate_latency_ns_p50").verdict == Verdict::Same);
  const Comparison one = compared([](InterleavedRun& run) {
    std::erase_if(run.rounds, [](const RoundResult& result) { return result.round > 0; });
  });
  CHECK(number(one, "work0", "allocate_latency_ns_p50").verdict == Verdict::Undecided);
}

TEST_CASE("times of a debug and a release build are not compared, exact numbers are") {
  const auto built = [](const char* base, const char* now) {
    return compared([&](InterleavedRun& run) {
      run.environments[0].build_type = base;
      run.environments[1].build_type = now;
    });
  };
  const Comparison mixed = built("Release", "Debug");
  const NumberComparison& timed = number(mixed, "work0", "allocate_latency_ns_p50");
  CHECK(timed.verdict == Verdict::NotComparable);
  CHECK(contains(timed.reason, "build_type was 'Release', is 'Debug'"));
  CHECK(number(mixed, "work0", "placement_hash").verdict == Verdict::Same);
  CHECK(mixed.exit_code == ExitCode::CellsIncomplete);
  // A program of an older version does not say.
  CHECK(built("", "Release").exit_code == ExitCode::Pass);
}

TEST_CASE("of a cell with fewer rounds than the first look has, exact numbers alone count") {
  const Comparison comparison = compared([](InterleavedRun& run) {
    run.plan.cells[0].round_count_max = 2;
    const std::string untimed = run.plan.cells[0].base.workload;
    std::erase_if(run.rounds, [&](const RoundResult& result) {
      return result.cell.key.workload == untimed && result.round >= 2;
    });
    for (RoundResult& result : run.rounds) {
      if (result.cell.key.workload != untimed || result.side == 0) continue;
      for (PassSummary& pass : result.cell.passes) pass.allocator_ns_per_step *= 3;
      ++*result.cell.reserved_bytes_peak;
    }
  });
  const auto cell = std::ranges::find(comparison.cells, Verdict::Worse, &CellComparison::verdict);
  REQUIRE(cell != comparison.cells.end());
  CHECK(std::ranges::none_of(cell->numbers, &NumberComparison::timed));
  CHECK(comparison.faults.empty());
}

TEST_CASE("sides that are other allocators are compared as one experiment") {
  const Comparison comparison = compared([](InterleavedRun& run) {
    for (InterleavedCell& cell : run.plan.cells) cell.now.allocator = "native";
    for (RoundResult& result : run.rounds) {
      result.cell.counters = {{result.side == 0 ? "segments" : "calls", 1}};
      if (result.side == 1) result.cell.key.allocator = "native";
    }
  });
  REQUIRE(comparison.cells.size() == 3);
  REQUIRE(comparison.cells.front().now_key.has_value());
  CHECK(comparison.cells.front().now_key->allocator == "native");
  for (const NumberComparison& item : comparison.cells.front().numbers) {
    CHECK_FALSE(contains(item.name, "counters."));
  }
  CHECK(contains(render_comparison(comparison, Detail::All), "caching [unset] -> native [unset]"));
}

TEST_CASE("rounds that are read whole one cell at a time are compared as those in memory") {
  InterleavedRun run = quiet_rounds();
  for (RoundResult& result : run.rounds) {
    CellResult& cell = result.cell;
    cell.counters = {{"splits", 7 + result.side}};
    cell.driver_calls = {{"cudaMalloc", 11 + result.side}};
    const bool first = cell.key.workload == run.plan.cells[0].base.workload;
    if (first && result.round == 5) cell.placement_hash = "00000000000000cc";
    if (first || result.side == 0) cell.warnings = {"not deterministic: placements"};
  }
  RoundResult& broken = run.rounds.back();
  broken.cell = sample::not_measured(broken.cell, CellStatus::Crashed, "signal 11");
  run.rounds.push_back(run.rounds.front());
  std::string lines;
  for (const RoundResult& result : run.rounds) lines += to_json_line(result) + "\n";
  InterleavedRun read{.plan = run.plan, .environments = run.environments};
  read_rounds(lines, "rounds.jsonl", &read);
  CHECK(render_comparison_json(compare_interleaved(read, {})) ==
        render_comparison_json(compare_interleaved(run, {})));
  CHECK(cells_to_go_on(read, {}) == cells_to_go_on(run, {}));
}

TEST_CASE("plan and rounds come back as they were stored, and damage is named with its line") {
  const InterleavedRun& run = quiet_rounds();
  const std::string plan = to_json(run.plan);
  CHECK(to_json(interleaved_plan_from_json(plan, "p")) == plan);
  std::string text;
  for (std::size_t i = 0; i < 4; ++i) text += to_json_line(run.rounds[i]) + "\n";
  InterleavedRun read{.torn = true};
  read_rounds(text, "r", &read);
  CHECK_FALSE(read.torn);
  REQUIRE(read.rounds.size() == 4);
  CHECK(read.rounds[3].side == 1);
  CHECK(read.rounds[2].cell.is_summary);
  CHECK(to_json_line(read.whole.whole(2)) == to_json_line(run.rounds[2].cell));
  read_rounds(text.substr(0, text.size() - 40), "r", &read);
  CHECK(read.rounds.size() == 3);
  CHECK(read.torn);
  std::string corrupt = text;
  corrupt.replace(corrupt.find("\"round\":0"), 9, "\"round\":-");
  CHECK(contains(error_of([&] { read_rounds(corrupt, "r", &read); }), "r:1"));
  std::string side = text;
  side.replace(side.find("\"side\":1"), 8, "\"side\":7");
  CHECK(contains(error_of([&] { read_rounds(side, "r", &read); }), "two sides"));
  for (const char* bad : {"", "[]", "{}", "{\"kind\":\"plan\"}"}) {
    CHECK(contains(error_of([&] { (void)interleaved_plan_from_json(bad, "p.json"); }), "p.json"));
  }
  std::string other = plan;
  other.replace(other.find("\"schema_version\": \"1"), 20, "\"schema_version\": \"9");
  CHECK(contains(error_of([&] { (void)interleaved_plan_from_json(other, "p"); }), "version"));
}

TEST_CASE("a promise of stream order is said to be untested where no cell tested it") {
  const auto notes = [](const std::string& tested_workload) {
    const Comparison comparison = compared([&](InterleavedRun& run) {
      for (RoundResult& round : run.rounds) {
        if (round.side == 0 || round.cell.key.workload == tested_workload) continue;
        round.cell.warnings.push_back(std::string(kRecordUncalled) + ": the workload");
      }
    });
    std::string text;
    for (const std::string& note : comparison.notes) text += note + "\n";
    return text;
  };
  CHECK(contains(notes(""), "B: record_stream was never called: no cell"));
  CHECK(!contains(notes("work1"), "record_stream"));
}

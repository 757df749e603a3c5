// Goal: where the passes of two sides alternated, what slows both of two neighbours is gone from
// the verdict. Method: passes on a machine that a neighbour slows by 40 % for a few passes at a
// time, which both sides meet, while some passes are hit alone.
#include "results/compare/interleaved.h"

#include <cstdint>
#include <string>
#include <utility>

#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

InterleavedRun make_run(double injected, bool in_turns, std::uint64_t seed) {
  constexpr std::uint32_t kRoundCount = 16;
  InterleavedRun run;
  run.plan.sides = {InterleavedSide{.label = "A", .text = "old"},
                    InterleavedSide{.label = "B", .text = "new"}};
  run.plan.round_count = run.plan.round_count_max = kRoundCount;
  for (auto& environment : run.environments) environment = sample::environment();
  for (auto& environment : run.environments) environment.clock_resolution_ns = 0;
  CellResult cell = sample::run_cell(
      {.workload = "work", .allocator = "caching", .conf = "", .capacity = "1.05x"});
  cell.trace_hash = "00000000000000aa", cell.placement_hash = "00000000000000bb";
  cell.deallocate = {};
  run.plan.cells.push_back({.base = cell.key, .now = cell.key, .round_count_max = kRoundCount});
  Random random(seed);
  bool disturbed = false;
  for (std::uint32_t round = 0; round < kRoundCount; ++round) {
    RoundResult sides[2];
    for (std::uint32_t side = 0; side < 2; ++side) {
      sides[side] = {.round = round, .side = side, .in_turns = in_turns, .cell = cell};
      sides[side].cell.passes.clear();
    }
    for (int pass = 0; pass < 12; ++pass) {
      if (random.unit() < 0.2) disturbed = !disturbed;
      for (std::uint32_t side = 0; side < 2; ++side) {
        const bool hit = disturbed || random.unit() < 0.1;
        const double shift = (hit ? 0.34 : 0) + side * injected + 0.01 * sample::normal(random);
        sides[side].cell.passes.push_back(
            {.allocate_buckets = sample::noisy_buckets(random, 1500, shift, 0)});
      }
    }
    for (RoundResult& side : sides) run.rounds.push_back(std::move(side));
  }
  return run;
}

NumberComparison p50(const InterleavedRun& run) {
  const Comparison comparison = compare_interleaved(run, {});
  for (const NumberComparison& number : comparison.cells.at(0).numbers) {
    if (number.name == "allocate_latency_ns_p50") return number;
  }
  FAIL("no P50");
  return {};
}

}  // namespace

TEST_CASE("what slows neighbouring passes of both sides is gone from their difference") {
  double width_apart = 0;
  double width = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const NumberComparison apart = p50(make_run(0, false, seed));
    const NumberComparison equal = p50(make_run(0, true, seed));
    width_apart += *apart.change_high - *apart.change_low;
    width += *equal.change_high - *equal.change_low;
    CHECK(equal.verdict == Verdict::Same);
    const NumberComparison slower = p50(make_run(0.05, true, seed));
    CHECK(slower.verdict == Verdict::Worse);
    CHECK(*slower.change == Approx(0.051).margin(0.01));
  }
  CHECK(width < 0.5 * width_apart);
}

TEST_CASE("sides with other numbers of passes have no neighbours, and their medians are compared") {
  InterleavedRun run = make_run(0.05, true, 1);
  for (RoundResult& round : run.rounds) {
    if (round.side == 0) round.cell.passes.resize(7);
  }
  InterleavedRun apart = run;
  for (RoundResult& round : apart.rounds) round.in_turns = false;
  CHECK(p50(run).change == p50(apart).change);
}

TEST_CASE("that passes alternated is stored, and files that do not say it are read as not") {
  const InterleavedRun run = make_run(0, true, 1);
  const std::string line = to_json_line(run.rounds.front());
  InterleavedRun stored;
  read_rounds(line + "\n", "rounds.jsonl", &stored);
  CHECK(stored.rounds.at(0).in_turns);
  std::string older = line;
  const std::string field = "\"in_turns\":true,";
  older.erase(older.find(field), field.size());
  read_rounds(older + "\n", "rounds.jsonl", &stored);
  CHECK_FALSE(stored.rounds.at(0).in_turns);
  InterleavedPlan plan = run.plan;
  plan.pass_count = 4, plan.pass_count_max = 9;
  const InterleavedPlan read = interleaved_plan_from_json(to_json(plan), "interleaved.json");
  CHECK(read.pass_count_max == 9);
  CHECK(read.turns_by_pass);
}

// Goal: both sides get the same share of every place in an interleaved run, a broken process ends
// its cell alone, and what disturbed a run is named. Method: the order by itself, the stand-in
// cells of misbehaving_cell.cc, and counters of a host as literals.
#include "harness/core/run/interleave.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness/core/run/conditions.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text_checks.h"

namespace allocmark {
namespace {

InterleavedPlan make_plan(const std::vector<std::string>& behaviours) {
  InterleavedPlan plan{.order_seed = 3, .round_count = 4, .round_count_max = 8};
  plan.sides[0] = {.label = "A", .program_path = MISBEHAVING_CELL};
  plan.sides[1] = {.label = "B", .program_path = MISBEHAVING_CELL};
  for (const std::string& behaviour : behaviours) {
    const CellKey key{.workload = behaviour,
                      .allocator = "null",
                      .conf = "",
                      .device = "cuda:0",
                      .capacity = "unlimited"};
    plan.cells.push_back({.base = key, .now = key, .round_count_max = 8});
  }
  return plan;
}

}  // namespace

TEST_CASE("every round has both sides of a cell next to each other, and the next one swaps them") {
  const InterleavedPlan plan = make_plan({"a", "b", "c", "d"});
  const std::set<std::size_t> all{0, 1, 2, 3};
  std::size_t first_side_count = 0;
  std::set<std::vector<std::size_t>> orders;
  for (std::uint32_t round = 0; round < 200; round += 2) {
    std::map<std::size_t, std::uint32_t> first_side;
    for (const std::uint32_t one : {round, round + 1}) {
      const std::vector<Turn> turns = turns_of_round(plan, one, all);
      REQUIRE(turns.size() == 8);
      std::vector<std::size_t> order;
      for (std::size_t i = 0; i < turns.size(); i += 2) {
        CHECK(turns[i].cell_index == turns[i + 1].cell_index);
        CHECK(turns[i].side + turns[i + 1].side == 1);
        order.push_back(turns[i].cell_index);
        const auto [before, is_new] = first_side.emplace(order.back(), turns[i].side);
        if (!is_new) CHECK(before->second == 1 - turns[i].side);
        if (is_new) first_side_count += turns[i].side;
      }
      orders.insert(order);
    }
  }
  // 400 draws: which side begins is a matter of chance, and cells have no place of their own.
  CHECK(first_side_count > 150);
  CHECK(first_side_count < 250);
  CHECK(orders.size() == 24);
}

TEST_CASE("the order depends on its seed, and not on which cells have stopped") {
  InterleavedPlan plan = make_plan({"a", "b", "c", "d"});
  const auto firsts = [&](const std::set<std::size_t>& cells) {
    std::vector<std::uint32_t> sides;
    for (std::uint32_t round = 0; round < 20; ++round) {
      for (const Turn& turn : turns_of_round(plan, round, cells)) {
        if (turn.cell_index != 2) continue;
        sides.push_back(turn.side);
        break;
      }
    }
    return sides;
  };
  const std::vector<std::uint32_t> all = firsts({0, 1, 2, 3});
  CHECK(firsts({2}) == all);
  plan.order_seed = 4;
  CHECK(firsts({0, 1, 2, 3}) != all);
}

TEST_CASE("a crashed process ends its cell, decided cells stop at the look, others go on") {
  const InterleavedPlan plan = make_plan({"fine", "crash", "decided"});
  std::map<std::string, std::uint32_t> last_round;
  std::size_t look_count = 0;
  const bool completed = run_interleaved(
      plan, {.timeout_s = 60, .job_count = 2},
      [&] {
        ++look_count;
        return std::set<std::size_t>{0};
      },
      [&](const RoundResult& result) {
        std::uint32_t& last = last_round[result.cell.key.workload];
        last = std::max(last, result.round);
        CHECK((result.cell.status == CellStatus::Crashed) == (result.cell.key.workload == "crash"));
      });
  CHECK(completed);
  CHECK(look_count == 1);
  CHECK(last_round ==
        std::map<std::string, std::uint32_t>{{"crash", 0}, {"decided", 3}, {"fine", 7}});
}

TEST_CASE("a round is told what those before it found to need, by a program of the same path") {
  const InterleavedPlan plan = make_plan({"packs"});
  std::set<std::pair<std::uint32_t, std::uint64_t>> packed;
  REQUIRE(run_interleaved(
      plan, {.timeout_s = 60}, [] { return std::set<std::size_t>{}; },
      [&](const RoundResult& result) {
        packed.emplace(result.round, result.cell.packed_bytes.value_or(0));
      }));
  CHECK(packed == std::set<std::pair<std::uint32_t, std::uint64_t>>{
                      {0, 4096}, {1, 4097}, {2, 4098}, {3, 4099}});
}

TEST_CASE("a cell whose rounds are limited stops there") {
  InterleavedPlan plan = make_plan({"once", "always"});
  plan.cells[0].round_count_max = 1;
  std::map<std::string, std::size_t> count;
  REQUIRE(run_interleaved(
      plan, {.timeout_s = 60}, [] { return std::set<std::size_t>{}; },
      [&](const RoundResult& result) { ++count[result.cell.key.workload]; }));
  CHECK(count == std::map<std::string, std::size_t>{{"always", 8}, {"once", 2}});
}

TEST_CASE("sides alternate but where both would need the memory that each holds back on a GPU") {
  const auto in_turns = [](const std::string& device, const std::string& capacity, bool by_pass) {
    InterleavedPlan plan = make_plan({"fine"});
    plan.turns_by_pass = by_pass;
    CellKey& base = plan.cells[0].base;
    base.device = device, base.capacity = capacity;
    plan.cells[0].now = base;
    const RunGroupSpec group = groups_of_round(plan, {}, turns_of_round(plan, 0, {0}), 0).at(0);
    // The processor is chosen once for both neighbours, or by each process for itself.
    CHECK(group.quiet_cpu);
    for (const CellStep& step : group.steps) CHECK(step.spec.quiet_cpu == !group.takes_turns);
    return group.takes_turns;
  };
  CHECK(in_turns("cuda:0", "unlimited", true));
  CHECK(in_turns("cuda:0", "8GiB@limit", true));
  CHECK(in_turns("sim:h200", "1.05x", true));
  CHECK_FALSE(in_turns("cuda:0", "1.05x", true));
  CHECK_FALSE(in_turns("sim:h200", "unlimited", false));
}

TEST_CASE("an untimed cell of a simulated device has few passes, warm caches and company") {
  InterleavedPlan plan = make_plan({"fine", "untimed"});
  plan.pass_count = 3, plan.pass_count_max = 16;
  plan.cells[1].round_count_max = 2;
  const auto group_of_untimed = [&](const std::string& device) {
    for (InterleavedCell& cell : plan.cells) cell.base.device = cell.now.device = device;
    return groups_of_round(plan, {}, turns_of_round(plan, 0, {1}), 0).at(0);
  };
  const RunGroupSpec simulated = group_of_untimed("sim:h200");
  CHECK(simulated.pass_count_max == 3);
  CHECK_FALSE(simulated.quiet_cpu);
  for (const CellStep& step : simulated.steps) {
    CHECK(step.environment == JobEnvironment{{"SIMCUDA_HOST_CACHES", "warm"}});
  }
  // On a GPU others would take its memory; timed cells are as ever.
  CHECK(group_of_untimed("cuda:0").quiet_cpu);
  CHECK(group_of_untimed("cuda:0").steps[0].environment.empty());
  plan.cells[1].round_count_max = 8;
  const RunGroupSpec timed = group_of_untimed("sim:h200");
  CHECK(timed.pass_count_max == 16);
  CHECK(timed.quiet_cpu);
  CHECK(timed.steps[0].environment.empty());
}

TEST_CASE("conditions name steal, other programs, a container's limit and heat, and nothing else") {
  const HostCounters begin{.wall_s = 100,
                           .own_cpu_s = 5,
                           .busy_cpu_s = 1000,
                           .steal_cpu_s = 7,
                           .throttled_us = 50,
                           .thermal_throttle_count = 2};
  HostCounters quiet = begin;
  quiet.wall_s = 110, quiet.own_cpu_s = 15, quiet.busy_cpu_s = 1010.5;
  CHECK(conditions_between(begin, quiet, 4).warnings.empty());
  HostCounters loud = quiet;
  loud.busy_cpu_s = 1030, loud.steal_cpu_s = 8, loud.throttled_us = 1'000'050;
  loud.thermal_throttle_count = 5;
  const Conditions found = conditions_between(begin, loud, 4);
  CHECK(found.other_cpu_count == Approx(2));
  CHECK(found.steal_share == Approx(0.025));
  CHECK(found.throttled_s == Approx(1));
  REQUIRE(found.warnings.size() == 4);
  CHECK(contains(found.warnings[0], "2.5 %"));
  CHECK(contains(found.warnings[1], "2.0 of 4 processors"));
  CHECK(contains(found.warnings[2], "1.00 s"));
  CHECK(contains(found.warnings[3], "3 times"));
  // What the host does not tell is not known, and a counter that fell says nothing.
  HostCounters silent = loud;
  silent.busy_cpu_s.reset();
  silent.steal_cpu_s = 1;
  const Conditions unknown = conditions_between(begin, silent, 4);
  CHECK_FALSE(unknown.other_cpu_count.has_value());
  CHECK_FALSE(unknown.steal_share.has_value());
  CHECK(read_host_counters().wall_s > 0);
}

TEST_CASE("conditions are stored beside the results, and a resumed run keeps what there was") {
  const TemporaryFolder folder;
  Environment environment;
  add_stored_conditions(folder.path(), &environment);
  CHECK(environment.warnings.empty());
  store_conditions(folder.path(), {.wall_s = 1, .warnings = {"first"}});
  store_conditions(folder.path(), {.wall_s = 2, .warnings = {"second", "first"}});
  add_stored_conditions(folder.path(), &environment);
  CHECK(environment.warnings == std::vector<std::string>{"first", "second"});
  write_file(folder.path() + "/conditions.json", "{");
  CHECK_THROWS_AS(add_stored_conditions(folder.path(), &environment), UsageError);
}

}  // namespace allocmark

// Goal: of two cells that take turns only one works at a time, in an order that favours neither,
// and whatever happens to one of them does not hold up the other. Method: the stand-in cells of
// misbehaving_cell.cc, which write down what they do.
#include "harness/core/run/run_group.h"
#include "base/output_file.h"

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "harness/core/run/run.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

struct Outcome {
  std::map<std::string, GroupResult> results = {};  // by the stand-in's name
  std::vector<std::string> log = {};
};

struct Pair {
  std::string first = "turns", second = "turns";  // how they behave
  std::uint64_t pass_ms = 0;
  std::uint64_t timeout_s = 60;
  std::uint32_t pass_count_min = 4, pass_count_max = 4;
  bool takes_turns = true;
};

Outcome run_pair(const Pair& pair) {
  const TemporaryFolder folder;
  const std::string log_path = folder.path() + "/log";
  write_file(log_path, "");
  RunGroupSpec group{.takes_turns = pair.takes_turns,
                     .pass_count_min = pair.pass_count_min,
                     .pass_count_max = pair.pass_count_max};
  for (const auto& [kind, name] : {std::pair(pair.first, "A"), std::pair(pair.second, "B")}) {
    CellSpec spec;
    spec.key = {.workload = kind,
                .allocator = name,
                .conf = "",
                .device = "cuda:0",
                .capacity = "unlimited",
                .seed = pair.pass_ms};
    spec.timeout_s = pair.timeout_s;
    spec.placements_path = log_path;
    group.steps.push_back({.spec = spec, .program_path = MISBEHAVING_CELL});
  }
  Outcome outcome;
  KnownPackings packings;
  REQUIRE(run_groups({group}, 1, 0, nullptr, packings, [&](std::size_t, const GroupResult& result) {
    outcome.results[result.cell.key.allocator] = result;
  }));
  std::istringstream lines(read_file(log_path));
  for (std::string line; std::getline(lines, line);) outcome.log.push_back(line);
  return outcome;
}

std::vector<std::string> texts(const std::string& words) {
  std::istringstream stream(words);
  std::vector<std::string> list;
  for (std::string name, verb; stream >> name >> verb;) list.push_back(name + " " + verb);
  return list;
}

}  // namespace

TEST_CASE("two cells alternate pass by pass, each is first in every other pair") {
  const Outcome outcome = run_pair({});
  CHECK(outcome.log == texts("A starts B starts A checks B checks A passes B passes B passes "
                             "A passes A passes B passes B passes A passes A ends B ends"));
  for (const auto& [name, result] : outcome.results) {
    CHECK(result.cell.status == CellStatus::Ok);
    CHECK(result.cell.pass_count == 4);
    CHECK(result.in_turns);
  }
  CHECK(outcome.results.size() == 2);
}

TEST_CASE("short passes are repeated up to the most, long ones only up to the fewest") {
  CHECK(run_pair({.pass_count_min = 2, .pass_count_max = 9}).results["A"].cell.pass_count == 9);
  const Outcome outcome = run_pair({.pass_ms = 100, .pass_count_min = 2, .pass_count_max = 9});
  CHECK(outcome.results.at("A").cell.pass_count == 2);
  CHECK(outcome.results.at("B").cell.pass_count == 2);
}

TEST_CASE("where one of two crashes the other one finishes") {
  const Outcome outcome = run_pair({.second = "turns_crash"});
  CHECK(outcome.results.at("B").cell.status == CellStatus::Crashed);
  CHECK(outcome.results.at("A").cell.status == CellStatus::Ok);
  CHECK(outcome.results.at("A").cell.pass_count == 4);
  const Outcome early = run_pair({.first = "crash"});
  CHECK(early.results.at("A").cell.status == CellStatus::Crashed);
  CHECK(early.results.at("B").cell.pass_count == 4);
  CHECK_FALSE(early.results.at("B").in_turns);
}

TEST_CASE("a program that knows no turns runs by itself, and its partner after it") {
  const Outcome outcome = run_pair({.first = "fine"});
  CHECK(outcome.results.at("A").cell.status == CellStatus::Ok);
  CHECK_FALSE(outcome.results.at("A").in_turns);
  CHECK_FALSE(outcome.results.at("B").in_turns);
  CHECK(outcome.log == texts("B starts B checks B passes B passes B passes B passes B ends"));
}

TEST_CASE("a program whose socket is closed runs by itself, and nobody spins meanwhile") {
  const std::clock_t begin = std::clock();
  const Outcome outcome = run_pair({.first = "closes_turns", .second = "fine", .pass_ms = 500});
  CHECK(outcome.results.at("A").cell.status == CellStatus::Ok);
  CHECK_FALSE(outcome.results.at("A").in_turns);
  CHECK(outcome.results.at("B").cell.status == CellStatus::Ok);
  // Less than half of the time that the other one sleeps.
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 0.5 * 0.5);
}

TEST_CASE("without turns the second cell starts when the first has ended") {
  const Outcome outcome = run_pair({.first = "fine", .second = "fine", .takes_turns = false});
  CHECK(outcome.results.size() == 2);
  for (const auto& [name, result] : outcome.results) {
    CHECK(result.cell.status == CellStatus::Ok);
    CHECK_FALSE(result.in_turns);
  }
}

TEST_CASE("waiting for the other one does not count towards the time limit, working does") {
  const Outcome fits = run_pair({.pass_ms = 350, .timeout_s = 2});
  CHECK(fits.results.at("A").cell.status == CellStatus::Ok);
  CHECK(fits.results.at("B").cell.status == CellStatus::Ok);
  const Outcome late = run_pair({.second = "hang", .timeout_s = 1});
  CHECK(late.results.at("B").cell.status == CellStatus::TimedOut);
  CHECK(late.results.at("A").cell.status == CellStatus::Ok);
}

}  // namespace allocmark

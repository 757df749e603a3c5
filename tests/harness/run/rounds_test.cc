// Goal: the passes of every cell are spread over the run, whatever one of them does; what a cell
// has so far is handed over; and processes that wait stay within their bounds. Method: the stand-in
// cells of misbehaving_cell.cc, which write down what they do.
#include "harness/core/run/rounds.h"

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/output_file.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

struct RoundsOutcome {
  bool completed = false;
  std::map<std::string, CellResult> results = {};  // by the stand-in's name
  std::vector<CellResult> parts = {};
  std::uint32_t pass_count = 0;
  std::vector<std::string> log = {};
};

struct Setup {
  std::vector<std::string> kinds;  // how each cell behaves; their names are A, B, C ...
  std::uint64_t pass_ms = 0;
  std::uint64_t timeout_s = 60;
  std::uint32_t job_count = 1;
  std::uint32_t waiting_count_max = 100;
  std::uint64_t waiting_bytes_max = std::uint64_t{1} << 40;
  const InterruptGuard* interrupt = nullptr;
  std::function<void(const CellResult&)> on_part = [](const CellResult&) {};
};

RoundsOutcome run_setup(const Setup& setup) {
  const TemporaryFolder folder;
  const std::string log_path = folder.path() + "/log";
  write_file(log_path, "");
  std::vector<CellSpec> specs;
  for (std::size_t i = 0; i < setup.kinds.size(); ++i) {
    CellSpec spec;
    spec.key = {.workload = setup.kinds[i],
                .allocator = std::string(1, static_cast<char>('A' + i)),
                .conf = "",
                .device = "cuda:0",
                .capacity = "unlimited",
                .seed = setup.pass_ms};
    spec.pass_count = 3;
    spec.in_rounds = true;
    spec.timeout_s = setup.timeout_s;
    spec.placements_path = log_path;
    specs.push_back(spec);
  }
  RoundsOutcome outcome;
  outcome.completed = run_in_rounds(
      specs,
      {.program_path = MISBEHAVING_CELL,
       .job_count = setup.job_count,
       .interrupt = setup.interrupt,
       .waiting_bytes_max = setup.waiting_bytes_max,
       .waiting_count_max = setup.waiting_count_max},
      {.on_result = [&](const CellResult& cell) { outcome.results[cell.key.allocator] = cell; },
       .on_part =
           [&](const CellResult& cell) {
             outcome.parts.push_back(cell);
             setup.on_part(cell);
           },
       .on_passes = [&](std::uint32_t count) { outcome.pass_count += count; }});
  std::istringstream lines(read_file(log_path, kProgramInput));
  for (std::string line; std::getline(lines, line);) outcome.log.push_back(line);
  return outcome;
}

// The passes of the log by number, in its order: "1 1 1 2 2 2".
std::string numbers(const std::vector<std::string>& log) {
  std::string text;
  for (const std::string& line : log) text += (text.empty() ? "" : " ") + line.substr(2);
  return text;
}

}  // namespace

TEST_CASE("every cell has its first pass before one has its second, in a new order each round") {
  const RoundsOutcome outcome = run_setup({.kinds = std::vector<std::string>(8, "rounds")});
  CHECK(outcome.completed);
  CHECK(numbers(outcome.log) == "1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 3 3 3 3 3 3 3 3");
  std::set<std::string> orders;
  for (std::size_t round = 0; round < 3; ++round) {
    std::string order;
    for (std::size_t i = 0; i < 8; ++i) order += outcome.log.at(round * 8 + i)[0];
    orders.insert(order);
  }
  CHECK(orders.size() == 3);
  REQUIRE(outcome.results.size() == 8);
  for (const auto& [name, cell] : outcome.results) {
    CHECK(cell.status == CellStatus::Ok);
    CHECK(cell.pass_count == 3);
    CHECK(cell.passes_to_come == 0);
  }
  CHECK(outcome.pass_count == 8 * (3 + kUntimedPassCount));
}

TEST_CASE("what a cell has so far is handed over with the passes that are to come") {
  const RoundsOutcome outcome = run_setup({.kinds = {"rounds", "rounds"}});
  REQUIRE(outcome.parts.size() == 4);
  CHECK(outcome.parts[0].key.allocator == "A");
  CHECK(outcome.parts[0].pass_count == 1);
  CHECK(outcome.parts[0].passes_to_come == 2);
  CHECK(outcome.parts[3].passes_to_come == 1);
}

// All are open before the first has ended.
TEST_CASE("a cell is told what the first pass of an earlier one found to need") {
  const std::vector<std::string> kinds(3, "rounds_packs");
  const RoundsOutcome outcome = run_setup({.kinds = kinds});
  REQUIRE(outcome.parts.size() >= 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(outcome.parts[i].packed_bytes == 4096 + i);
  CHECK(outcome.results.at("C").packed_bytes == 4098);
}

TEST_CASE("where one cell crashes or hangs in a round, the others go on") {
  for (const char* kind : {"rounds_crash", "hang", "garbage", "crash"}) {
    INFO(kind);
    const RoundsOutcome outcome = run_setup({.kinds = {"rounds", kind, "rounds"}, .timeout_s = 1});
    CHECK(outcome.completed);
    CHECK(outcome.results.at("B").status != CellStatus::Ok);
    CHECK(outcome.results.at("A").pass_count == 3);
    CHECK(outcome.results.at("C").pass_count == 3);
  }
}

TEST_CASE("a program that knows no rounds makes its passes in a row") {
  const RoundsOutcome outcome = run_setup({.kinds = {"fine", "rounds"}});
  CHECK(outcome.results.at("A").status == CellStatus::Ok);
  CHECK(outcome.results.at("B").pass_count == 3);
}

TEST_CASE("waiting does not count towards the time limit") {
  // Each works for 0.9 s in all, and is there for 4.5 s.
  const RoundsOutcome outcome =
      run_setup({.kinds = std::vector<std::string>(5, "rounds"), .pass_ms = 300, .timeout_s = 3});
  for (const auto& [name, cell] : outcome.results) CHECK(cell.status == CellStatus::Ok);
}

TEST_CASE("where waiting processes hold too much, the cells so far are finished before others") {
  const std::vector<std::string> kinds(5, "rounds");
  const std::string by_two = "1 1 2 2 3 3 1 1 2 2 3 3 1 2 3";
  CHECK(numbers(run_setup({.kinds = kinds, .waiting_count_max = 2}).log) == by_two);
  // One byte is less than any process holds.
  const RoundsOutcome one_by_one = run_setup({.kinds = kinds, .waiting_bytes_max = 1});
  CHECK(numbers(one_by_one.log) == "1 2 3 1 2 3 1 2 3 1 2 3 1 2 3");
  CHECK(one_by_one.results.size() == 5);
}

TEST_CASE("several processes at work at a time make all passes") {
  const RoundsOutcome outcome =
      run_setup({.kinds = std::vector<std::string>(7, "rounds"), .pass_ms = 5, .job_count = 3});
  CHECK(outcome.log.size() == 21);
  for (const auto& [name, cell] : outcome.results) CHECK(cell.pass_count == 3);
}

TEST_CASE("an interrupt ends the run, and what cells had was handed over") {
  const InterruptGuard interrupt;
  std::size_t part_count = 0;
  const RoundsOutcome outcome = run_setup(
      {.kinds = {"rounds", "rounds"}, .interrupt = &interrupt, .on_part = [&](const CellResult&) {
         if (++part_count == 2) raise(SIGINT);
       }});
  CHECK_FALSE(outcome.completed);
  CHECK(outcome.results.empty());
  CHECK(outcome.parts.size() == 2);
}

TEST_CASE("processes that cannot be started are failed cells") {
  CellSpec spec;
  spec.key = {.workload = "rounds",
              .allocator = "A",
              .conf = "",
              .device = "cuda:0",
              .capacity = "unlimited"};
  spec.in_rounds = true;
  std::vector<CellResult> results;
  CHECK(run_in_rounds({spec, spec}, {.program_path = "/nonexistent/allocmark"},
                      {.on_result = [&](const CellResult& cell) { results.push_back(cell); }}));
  REQUIRE(results.size() == 2);
  CHECK(results[0].status == CellStatus::Failed);
}

TEST_CASE("the bounds on waiting are those of the machine") {
  RoundsOptions options;
  bound_waiting(&options);
  CHECK(options.waiting_count_max >= 1);
  CHECK(options.waiting_count_max <= 256);
  CHECK(options.waiting_bytes_max > std::uint64_t{1} << 20);
}

}  // namespace allocmark

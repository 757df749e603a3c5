// Goal: runs are compared cell by cell although a scenario or a trace file was edited, or although
// one run does not store what they were; only equal work gets numbers.
#include <algorithm>
#include <string>

#include "results/compare/compare.h"
#include "tests/catch.h"
#include "tests/support/noise.h"

using namespace allocmark;

namespace {

RunFile run_of(const std::string& definition) {
  Random random(5);
  RunFile run = sample::noisy_run(random, {.cell_count = 3,
                                           .pass_count = 3,
                                           .sample_count = 1000,
                                           .noise = {.run = 0, .pass = 0, .disturbed_share = 0}});
  for (CellResult& cell : run.cells) cell.key.workload_definition = definition;
  return run;
}

}  // namespace

TEST_CASE("a cell is found by its scenario's name where the definitions differ or are not stored") {
  for (const char* base : {"", "comb:count=4"}) {
    RunFile now = run_of("comb:count=6");
    now.cells[0].trace_hash = "0123456789abcdef";
    const Comparison edited = compare_runs({.label = "BASE", .file = run_of(base)},
                                           {.label = "NEW", .file = std::move(now)}, {}, {});
    CHECK(edited.incomplete.empty());
    CHECK(edited.cells.size() == 3);
    CHECK(std::ranges::count(edited.cells, Verdict::NotComparable, &CellComparison::verdict) == 1);
  }
}

TEST_CASE("a comparison says that a scenario was edited, and from what to what") {
  RunFile now = run_of("comb:count=6");
  for (CellResult& cell : now.cells) cell.trace_hash = "0123456789abcdef";
  const std::string name = now.cells.front().key.workload;
  const Comparison edited = compare_runs({.label = "BASE", .file = run_of("comb:count=4")},
                                         {.label = "NEW", .file = std::move(now)}, {}, {});
  const std::string note = "the scenario '" + name + "' is not the same in both runs";
  CHECK(std::ranges::count(edited.notes, note) == 1);
  CHECK(edited.cells.front().reason == "the scenario differs: 'comb:count=4' and 'comb:count=6'");
  const Comparison same = compare_runs({.label = "BASE", .file = run_of("comb:count=4")},
                                       {.label = "NEW", .file = run_of("comb:count=4")}, {}, {});
  CHECK(std::ranges::count(same.notes, note) == 0);
}

TEST_CASE("what was planned of an edited scenario and is missing is missing once") {
  RunSide base{.label = "BASE", .file = run_of("comb:count=4")};
  RunSide now{.label = "NEW", .file = run_of("comb:count=6")};
  for (RunSide* side : {&base, &now}) {
    for (const CellResult& cell : side->file.cells) side->planned.push_back(cell.key);
  }
  now.file.cells.pop_back();
  CHECK(compare_runs(base, now, {}, {}).incomplete.size() == 1);
}

TEST_CASE("a comparison says that a trace file was edited, and compares what is equal work") {
  const auto run_with = [](const std::string& hash) {
    RunFile run = run_of("");
    for (CellResult& cell : run.cells) cell.key.workload_files = hash;
    return run;
  };
  // Another comment in the file is another file, and the same work.
  for (const char* base : {"", "0000000000000001"}) {
    RunFile now = run_with("0000000000000002");
    now.cells[0].trace_hash = "0123456789abcdef";
    const std::string note =
        "the trace file of '" + now.cells[0].key.workload + "' is not the same in both runs";
    const Comparison edited = compare_runs({.label = "BASE", .file = run_with(base)},
                                           {.label = "NEW", .file = std::move(now)}, {}, {});
    CHECK(edited.incomplete.empty());
    CHECK(std::ranges::count(edited.cells, Verdict::NotComparable, &CellComparison::verdict) == 1);
    const bool said = std::string(base).empty();
    CHECK(std::ranges::count(edited.notes, note) == (said ? 0 : 1));
    CHECK((edited.cells.front().reason == "the trace file differs: its content had hash "
                                          "0000000000000001 and has 0000000000000002") == !said);
  }
}

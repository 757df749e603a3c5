// Goal: the answer claims what the numbers support and no more. Method: groups made by hand, whole
// sentences as literals.
#include "results/answer.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"
#include "tests/results/sample_run.h"

using namespace allocmark;

namespace {

CellResult cell(const std::string& allocator, const std::string& conf, std::uint64_t oom_count = 0,
                double scale_ns = 40) {
  return sample::run_cell({.workload = "w",
                           .allocator = allocator,
                           .conf = conf,
                           .capacity = "1.1x",
                           .oom_count = oom_count,
                           .scale_ns = scale_ns});
}

std::string answer_of(const std::vector<CellResult>& cells) {
  const std::vector<CellGroup> groups = group_cells(cells);
  REQUIRE(groups.size() == 1);
  return answer(groups[0], terminal_style());
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

TEST_CASE("where the unset config fails, the answer lists what did not and its cost") {
  std::vector<CellResult> cells{cell("caching", "", 12), cell("caching", "a:1", 0, 60)};
  sample::fail_requests(cells[0], 2, 10);
  CHECK(answer_of(cells) ==
        "caching unset ran out of memory: 12 of 6000 requests failed (capacity 2, fragmentation "
        "10). No OOM: caching "
        "a:1 (allocate P50 1.50x, allocate P99 1.50x, free P50 1.50x, reserved peak 1.00x).");
}

TEST_CASE("a difference within the spread of the passes is marked, and so are too few samples") {
  std::vector<CellResult> cells{cell("caching", "", 1), cell("caching", "a:1", 0, 40.4)};
  CHECK(contains(answer_of(cells), "allocate P50 1.01x?, allocate P99 1.01x?"));
  cells[1] = cell("caching", "a:1", 0, 60);
  CHECK(contains(answer_of(cells), "allocate P50 1.50x, allocate P99 1.50x"));
  cells[1].passes.resize(1);
  CHECK(contains(answer_of(cells), "allocate P50 1.50x?"));
  cells[1].allocate.total.count = 999;
  CHECK(contains(answer_of(cells), "allocate P99 ~1.50x?"));
}

TEST_CASE("where nothing avoids the OOM the answer says so, and why where it is certain") {
  std::vector<CellResult> cells{cell("caching", "", 12), cell("native", "", 5)};
  sample::fail_requests(cells[0], 12, 0);
  const std::string text = answer_of(cells);
  CHECK(contains(text, "no allocator could have served them"));
  CHECK(contains(text,
                 "Nothing else in this run avoided it. OOM as well: native unset (5 of 6000 "
                 "requests failed)."));
  sample::fail_requests(cells[0], 11, 1);
  CHECK_FALSE(contains(answer_of(cells), "no allocator could"));
}

TEST_CASE("without a measured baseline costs are times") {
  const std::vector<CellResult> cells{
      sample::not_measured(cell("caching", ""), CellStatus::TimedOut, "60 s"),
      cell("native", "", 0, 61000)};
  CHECK(
      answer_of(cells) ==
      "caching unset was not measured here, so costs are times and not ratios. No OOM: native "
      "unset (allocate P50 "
      "61.0 us, allocate P99 183.0 us, free P50 30.5 us). No numbers: caching unset (timed_out).");
}

TEST_CASE("the null backend is no answer, and an OOM in any pass counts") {
  std::vector<CellResult> cells{cell("caching", ""), cell("null", ""), cell("cub", "")};
  cells[2].trial_oom_count = 1;
  CHECK(answer_of(cells) ==
        "caching unset had no OOM: all 6000 requests of a pass were served. OOM: cub unset (0 of "
        "6000 requests "
        "failed).");
}

TEST_CASE("of several processes each one's failures are said") {
  std::vector<CellResult> cells{cell("caching", "", 12)};
  cells[0].counters = {{"process0.requests", 5000},
                       {"process0.out_of_memory", 12},
                       {"process1.requests", 1000},
                       {"process1.out_of_memory", 0}};
  CHECK(contains(answer_of(cells),
                 "12 of 6000 requests failed, process 0: 12 of 5000, process 1: 0 of 1000"));
}

TEST_CASE("a long list is cut and counted") {
  std::vector<CellResult> cells{cell("caching", "", 1)};
  for (int index = 0; index < 9; ++index) {
    cells.push_back(cell("caching", "a:" + std::to_string(index)));
  }
  CHECK(contains(answer_of(cells), "; and 3 more."));
}

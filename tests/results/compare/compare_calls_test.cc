// Goal: more calls of the driver are worse where they cost or wait, and what can be a fault is
// never praised. Method: two cells that differ in their calls alone.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "tests/catch.h"
#include "tests/support/quiet_runs.h"

using namespace allocmark;
using namespace allocmark::quiet;

namespace {

using Calls = std::vector<std::pair<std::string, std::int64_t>>;

Comparison with_calls(const Calls& base_calls, const Calls& now_calls) {
  RunFile base = quiet_run(1);
  RunFile now = quiet_run(1);
  base.cells[0].driver_calls = base_calls;
  now.cells[0].driver_calls = now_calls;
  return compare_runs(side("BASE", base), side("NEW", now), {.scope = CompareScope::Exact}, {});
}

Verdict verdict_of(const Comparison& comparison, const std::string& function) {
  return number(comparison.cells.front(), "driver_calls." + function).verdict;
}

}  // namespace

TEST_CASE("fewer waits, frees and destroyed events are no merit, and more of them are worse") {
  for (const char* const function : {"cudaDeviceSynchronize", "cudaEventDestroy", "cudaFree",
                                     "cudaStreamWaitEvent", "cudaEventRecord", "cuMemRelease"}) {
    INFO(function);
    const Comparison fewer = with_calls({{function, 11}, {"cudaMalloc", 5}}, {{"cudaMalloc", 5}});
    CHECK(verdict_of(fewer, function) == Verdict::Changed);
    CHECK(fewer.cells.front().verdict == Verdict::Changed);
    CHECK(fewer.exit_code == ExitCode::Pass);
    CHECK(verdict_of(with_calls({{function, 11}}, {{function, 12}}), function) == Verdict::Worse);
  }
  CHECK(verdict_of(with_calls({{"cudaMalloc", 5}}, {{"cudaMalloc", 4}}), "cudaMalloc") ==
        Verdict::Better);
}

TEST_CASE("what a backend counts of its own frees and waits is no merit either") {
  const Comparison fewer = compared([](RunFile& now) {
    --*now.cells[0].device_free_count;
    now.cells[0].driver_calls = quiet_run(1).cells[0].driver_calls;
  });
  CHECK(number(fewer.cells.front(), "device_free_count").verdict == Verdict::Changed);
}

TEST_CASE("questions that take nanoseconds are left to the times") {
  const Comparison more =
      with_calls({{"cudaMalloc", 5}}, {{"cudaMalloc", 5}, {"cudaStreamGetId", 18'180}});
  CHECK(verdict_of(more, "cudaStreamGetId") == Verdict::Changed);
  CHECK(more.exit_code == ExitCode::Pass);
  // The device is asked for that.
  CHECK(verdict_of(with_calls({{"cudaMalloc", 5}}, {{"cudaMalloc", 5}, {"cudaMemGetInfo", 9}}),
                   "cudaMemGetInfo") == Verdict::Worse);
}

TEST_CASE("to wait instead of asking is worse, and another way to wait is a choice") {
  const Comparison waits = with_calls({{"cudaEventQuery", 40}}, {{"cudaEventSynchronize", 40}});
  CHECK(verdict_of(waits, "cudaEventSynchronize") == Verdict::Worse);
  CHECK(waits.exit_code == ExitCode::Regression);
  const Comparison other =
      with_calls({{"cudaDeviceSynchronize", 40}}, {{"cudaStreamSynchronize", 40}});
  CHECK(verdict_of(other, "cudaStreamSynchronize") == Verdict::Changed);
  CHECK(other.exit_code == ExitCode::Pass);
}

TEST_CASE("objects that are made and not ended are worse, and fewer of them are no merit") {
  const Calls ended = {{"cudaEventCreateWithFlags", 187}, {"cudaEventDestroy", 187}};
  const Calls left = {{"cudaEventCreateWithFlags", 187}};
  const auto live = [](const Comparison& comparison) {
    return number(comparison.cells.front(), "live_objects.events");
  };
  const Comparison leak = with_calls(ended, left);
  CHECK(live(leak).verdict == Verdict::Worse);
  CHECK(live(leak).now == 187);
  CHECK(leak.exit_code == ExitCode::Regression);
  CHECK(live(with_calls(left, ended)).verdict == Verdict::Changed);
  CHECK(contains(render_findings(leak), "live events 0 -> 187"));
  const Comparison handles = with_calls({{"cuMemCreate", 5}, {"cuMemRelease", 5}},
                                        {{"cuMemCreate", 5}, {"cuMemRelease", 4}});
  CHECK(number(handles.cells.front(), "live_objects.handles").verdict == Verdict::Worse);
}

TEST_CASE("a number in a line of findings is never cut") {
  const std::string function = "cudaMemPoolWithAVeryLongNameOfItsOwn";
  const Comparison comparison = with_calls({{function, 1}}, {{function, 123'456'789}});
  CHECK(contains(render_findings(comparison), "1 -> 123456789"));
}

// Turns measured figures into verdicts. Pure functions: answers and thresholds flow in, verdicts
// with their reasons flow out. Nothing is measured here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/thresholds.h"

namespace allocmark::qualify {

// How a test's child process ended, where it gave no answer of its own.
struct TestEnd {
  std::string test = {}, gpu = {};
  double wall_s = 0;
};

// FAIL where the answer says so or a figure is beyond its limit. SKIP where nothing could be
// measured; for preconditions that is a WARN, since what was not looked at is not met.
[[nodiscard]] TestResult judge(const TestEnd& end, TestAnswer answer, const Thresholds& thresholds);
// A test that could not be carried through.
[[nodiscard]] TestResult failed(const TestEnd& end, const std::string& reason);
[[nodiscard]] TestResult skipped(const TestEnd& end, const std::string& reason);

// A GPU against the median of the others of its model, by figures that they all have. One result
// per GPU; SKIP where a GPU has no sibling.
[[nodiscard]] std::vector<TestResult> judge_siblings(const std::vector<GpuReport>& gpus,
                                                     const Thresholds& thresholds);

struct PlacedTest {
  const GpuReport* gpu = nullptr;  // null: a test of the node
  const TestResult* test = nullptr;
};

// The tests of all GPUs, then those of the node. They point into the report.
[[nodiscard]] std::vector<PlacedTest> all_tests(const Report& report);

// Whether everything that a test found may be otherwise at another try: somebody else's work, heat,
// an old driver.
[[nodiscard]] bool passes_by_itself(const TestResult& test, Verdict fails_from = Verdict::Fail);

// Whether a test was skipped though other machines like this one do not skip it: it was not tried,
// or nothing could be measured.
[[nodiscard]] bool leaves_open(const TestResult& test);

// Fills in the verdicts of the GPUs and of the report, and its exit code: 0 for PASS and WARN; 1
// for a FAIL, whatever else there is; 4 where nothing failed but preconditions that another try may
// meet, or nothing could be measured. `fails_from`: the verdict that counts as a failure.
void conclude(Report& report, Verdict fails_from = Verdict::Fail);

// What a report says that its own figures and limits do not give: a verdict that is better, or
// another conclusion. Of one that this version wrote also a test or a figure that is missing, a
// skipped test for which there are GPUs, and a limit that does not ship. Empty where there is
// nothing.
[[nodiscard]] std::string contradiction_of(const Report& report, std::string_view version = {});

}  // namespace allocmark::qualify

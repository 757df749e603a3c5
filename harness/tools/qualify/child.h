// A test in a process of its own, and what the end of such a process means.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/job/job.h"
#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

// How to start it. `limit_s`: when it is ended.
struct ChildPlan {
  std::string program_path = {};
  double limit_s = 0;
  std::uint32_t simulated_gpu_count = 0;  // 0: as the environment says
  double virtual_s = 0;                   // that went by on the simulated GPUs before
};
[[nodiscard]] JobPlace place_of(const TestSpec& spec, const ChildPlan& plan);

// The answer it gave; else one whose failure says how the process ended.
[[nodiscard]] TestAnswer answer_of(const ChildOutcome& outcome, double limit_s);

// Starts the process and waits for its answer.
[[nodiscard]] TestAnswer ask_child(const TestSpec& spec, const ChildPlan& plan);

// The same with several at a time; `meanwhile` is called every now and then. A process that cannot
// even be killed, because it is stuck in the driver, is left behind.
struct TimedAnswer {
  TestAnswer answer = {};
  double wall_s = 0;
  bool timed_out = false;
};
[[nodiscard]] std::vector<TimedAnswer> ask_children(
    const std::vector<TestSpec>& specs, const ChildPlan& plan,
    const std::function<void()>& meanwhile = [] {});

}  // namespace allocmark::qualify

// The course of 'allocmark qualify': which GPUs there are, every test in a process of its own with
// a time limit, a monitor beside them, and the report. Touches no GPU itself, so whatever happens
// to a GPU or a test costs that test only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "harness/tools/qualify/result.h"
#include "harness/tools/qualify/test.h"
#include "harness/tools/qualify/thresholds.h"

namespace allocmark::qualify {

// Seconds of tests per GPU; 0: one round of each test.
struct Level {
  std::string_view name;
  double seconds = 0;
};
// "quick", "medium", "long", "extra-long"; throws UsageError with the nearest names.
[[nodiscard]] Level find_level(std::string_view name);

struct ConductOptions {
  std::string device = "all";  // all, cuda:N, or a simulated device, which means all of its kind
  std::uint32_t simulated_gpu_count = 0;  // 0: as the environment says
  Level level = {};
  double time_limit_s = 120;       // of a test, beyond the time that its level gives it
  std::string baseline_path = {};  // empty: by the GPU's model
  Thresholds thresholds = {};
  std::string program_path = {};
  double time_budget_s = 0;            // for everything; 0: as long as it takes
  Verdict fails_from = Verdict::Fail;  // for the exit code
  std::string node_name = {};          // empty: the host's
  bool is_anonymous = false;           // nothing in the report names the node or its GPUs
};

// Throws EnvironmentError where there is no GPU to qualify. `on_result` gets every result as it
// comes, but those that are judged from others.
[[nodiscard]] Report conduct(const ConductOptions& options, std::span<const TestEntry> tests,
                             const std::function<void(const TestResult&)>& on_result);

}  // namespace allocmark::qualify

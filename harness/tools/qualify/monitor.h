// The process that watches the GPUs while tests run, from its parent's side. A specification flows
// in; what it has seen flows out at the end.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "harness/job/job.h"
#include "harness/tools/qualify/child.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {

class MonitorProcess {
 public:
  // Where it does not start, nothing is told about the time of the tests, and health says so.
  MonitorProcess(const TestSpec& spec, const ChildPlan& plan);

  // Keeps its pipe from filling up.
  void advance();

  // Ends it. Readings by GPU.
  [[nodiscard]] std::map<int, std::map<std::string, double>> end();

 private:
  std::size_t gpu_count_;
  std::unique_ptr<ChildProcess> child_;
  std::optional<ChildOutcome> outcome_;
};

}  // namespace allocmark::qualify

// The process that watches the GPUs while tests run (monitor.cc), from its parent's side. A
// specification flows in; what it has seen flows out at the end.
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

// What was seen on a GPU so far, by the names of facts.h's readings.
struct GpuReadings {
  int gpu = 0;
  std::map<std::string, double> values = {};
};

// In its process: tells until nobody listens.
void run_monitor(const TestSpec& spec, const Tell<GpuReadings>& tell);

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

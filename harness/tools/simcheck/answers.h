// One side of the check: programs run on this process's device, and every answer is written down.
// The other side is another process with another device. Checks; times nothing.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/tools/simcheck/program.h"

namespace allocmark::simcheck {

struct Setting {
  std::string allocator, conf;
  friend bool operator==(const Setting&, const Setting&) = default;
};

struct Job {
  Setting setting;
  Program program;
  friend bool operator==(const Job&, const Job&) = default;
};

// Runs all jobs one after the other and hands over a line for each event: where an allocation
// landed relative to the first one of its area ("oom", "null"), and the device's bytes in use.
// After each job comes the line ".". Throws what the backend throws.
void run_jobs(const std::vector<Job>& jobs, const std::function<void(const std::string&)>& sink);

}  // namespace allocmark::simcheck

// What two runs' environments say about their comparison, and the calibration that belongs to a
// machine. Flows in: environments, A/A runs; flows out: reasons why numbers cannot be compared, and
// noise bounds. Neither times nor checks allocators.
#pragma once

#include <string>
#include <vector>

#include "results/compare/compare.h"

namespace allocmark {

struct EnvironmentVerdict {
  std::string exact_reason = {};        // why no exact number can be compared; empty where they can
  std::string timed_reason = {};        // the same of timed ones
  std::vector<std::string> notes = {};  // differences that are only good to know
  std::string host_note = {};           // that host code takes longer on one side; may be empty
};

// `ignored` names fields that the policy lets differ.
[[nodiscard]] EnvironmentVerdict compare_environments(const Environment& base,
                                                      const Environment& now,
                                                      const std::vector<std::string>& ignored);

// Throws UsageError where the calibration is of another machine, device or build type.
void check_calibration(const Calibration& calibration, const Environment& base,
                       const Environment& now);

}  // namespace allocmark

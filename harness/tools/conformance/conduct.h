// Holds a plugin against the rules, each in a process of its own: a plugin that crashes, hangs,
// exits or throws costs one rule. A config string flows in, one answer per rule flows out.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/conformance/rule.h"

namespace allocmark::conformance {

struct Finding {
  const Rule* rule = nullptr;
  Answer answer;
};

struct Setup {
  std::string device = "sim:h200";
  std::string conf;     // of the backend pluggable
  double limit_s = 20;  // of each call of the plugin; a rule may take six times as long
  std::vector<std::string> rules = {};  // names; all where empty
};

// Throws EnvironmentError where the device cannot be had.
[[nodiscard]] std::vector<Finding> conduct(const Setup& setup);

}  // namespace allocmark::conformance

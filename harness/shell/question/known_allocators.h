// The backend registry as the plan needs it, without CUDA types, and warnings about config strings
// that a user gave for a run: faults of the release that damage a program's memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/core/run/plan.h"

namespace allocmark {

[[nodiscard]] std::vector<PlanAllocator> known_allocators();

// Of an allocator that follows a release of PyTorch; empty for others and for harmless strings.
[[nodiscard]] std::vector<std::string> conf_warnings(std::string_view allocator,
                                                     std::string_view conf);

struct UsedConf {
  std::string allocator, conf;
};
// Each warning once, to stderr.
void print_conf_warnings(const std::vector<UsedConf>& confs);

}  // namespace allocmark

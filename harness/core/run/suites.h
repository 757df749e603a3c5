// The suites that ship with allocmark: named values for the axes of a run. An axis that the command
// line names takes the place of the suite's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

struct Suite {
  std::string_view name;
  std::string_view summary;
  std::vector<std::string> workloads;
  std::vector<std::string> allocators;
  std::vector<std::string> confs;
  std::vector<std::string> capacities;
  std::uint32_t pass_count = 3;
};

[[nodiscard]] const std::vector<Suite>& suites();

// Throws UsageError with the nearest names.
[[nodiscard]] const Suite& find_suite(std::string_view name);

}  // namespace allocmark

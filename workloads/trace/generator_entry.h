// What the registry of generators knows of each one: its row stands at the end of its own file.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "workloads/trace/parameters.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct GeneratorEntry {
  std::string_view name;
  std::string_view example;  // a workload text that shows the most useful keys
  std::string_view summary;  // one line: what it does and stresses
  std::unique_ptr<EventSource> (*make)(Parameters& parameters, std::uint64_t seed);
};

}  // namespace allocmark

// The counters of c10's statistics, as both interfaces of the torch plugin list them.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "allocators/plugins/torch_plugin/guarded.h"
#include "allocators/plugins/torch_plugin/plugin.h"

namespace allocmark_torch {

using Counters = std::vector<std::pair<std::string, std::int64_t>>;

inline void add_stat(Counters& counters, const std::string& name,
                     const c10::CachingAllocator::Stat& stat) {
  counters.emplace_back(name + ".allocated", stat.allocated);
  counters.emplace_back(name + ".current", stat.current);
  counters.emplace_back(name + ".freed", stat.freed);
  counters.emplace_back(name + ".peak", stat.peak);
}

// The list is read when index 0 is asked for and kept for the indices after it.
template <Counters (*kRead)()>
int counter(std::size_t index, const char** name, std::int64_t* value) {
  static Counters counters;
  if (index == 0 && guarded([] { counters = kRead(); }) != kAllocmarkPluginOk) return 0;
  if (index >= counters.size()) return 0;
  *name = counters[index].first.c_str();
  *value = counters[index].second;
  return 1;
}

}  // namespace allocmark_torch

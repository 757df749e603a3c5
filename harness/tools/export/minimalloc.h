// A history as an instance for minimalloc (google/minimalloc): the lifetime and size of every
// block, as CSV with the columns id, lower, upper and size. What an offline planner could reach.
#pragma once

#include <string>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

// Times are the numbers of entries; sizes are as requested. Blocks that stay live end with the
// history.
void write_minimalloc(const MemorySnapshot& snapshot, const std::string& path);

}  // namespace allocmark

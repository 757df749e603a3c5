// What a snapshot says that a program asked of the host (2.14, record_pinned_host_memory=True). A
// snapshot flows in, blocks and their ends flow out.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

// A block of `size_bytes`, as PyTorch rounded it, or the end of one where that is 0.
struct HostStep {
  std::uint64_t time_us = 0;  // since the first entry
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
};

// In order; blocks from before the history come first. A block ends when its last copy was seen to
// be done, where the history says so. What it knows no beginning of is left out.
[[nodiscard]] std::vector<HostStep> host_steps(const MemorySnapshot& snapshot);

}  // namespace allocmark

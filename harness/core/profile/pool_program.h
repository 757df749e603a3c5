// What a recorded program makes a stream-ordered pool do, step by step. CUDA tells of a pool only
// how much it holds; how many chunks a request maps (a pool also moves chunks that it has) and
// among how many free blocks it looks, the simulated pool says, which is held against the growth of
// the real one. A program flows in; work per step flows out. Times nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "harness/core/profile/program.h"

namespace allocmark {

struct PoolProgram {
  SlotProgram program;
  // 32 MiB chunks that a step maps, by step; 0 for frees.
  std::vector<std::uint64_t> chunks_mapped;
  // The median number of free blocks that the pool has when a step begins.
  std::uint64_t free_block_count = 0;
};

// The program on a pool that is empty before and after. `chunks_grown`: by how many chunks the real
// pool grew at each step; where the simulated pool disagrees at a step, the growth counts.
[[nodiscard]] PoolProgram follow_pool(SlotProgram program,
                                      const std::vector<std::uint64_t>& chunks_grown);

}  // namespace allocmark

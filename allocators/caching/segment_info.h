// What a heap holds, segment by segment and block by block, in the words of
// torch.cuda.memory._snapshot(). Snapshots flow out as this, and heaps that are taken over flow in.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "allocators/caching/counters.h"
#include "allocators/cuda/driver.h"

namespace allocmark::caching {

enum class BlockState : std::uint8_t {
  ActiveAllocated,
  ActivePendingFree,  // given back, but waiting for another stream
  Inactive,
};

[[nodiscard]] std::string_view to_string(BlockState state);

struct BlockInfo {
  std::uint64_t address = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;  // of the last request, 0 where there was none
  BlockState state = BlockState::Inactive;
};

// One cudaMalloc'd segment, or one contiguous mapped range of an expandable one.
struct SegmentInfo {
  std::uint64_t address = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t active_bytes = 0;
  std::uint64_t requested_bytes = 0;  // of active blocks
  Stream stream = 0;
  PoolKind kind = PoolKind::Small;
  bool expandable = false;
  std::uint64_t pool = 0;           // the private pool that has it; 0: none
  std::vector<BlockInfo> blocks{};  // tile the segment, by address
};

}  // namespace allocmark::caching

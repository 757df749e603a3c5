// The heap as it was when a snapshot's history begins: the final segments with the history undone,
// from its last entry to its first, and the blocks that were live then put into them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "allocators/caching/segment_info.h"
#include "allocators/caching/settings.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

struct StartHeap {
  // By pool of the snapshot (0 is the common one); what PyTorch would have shown then.
  std::map<std::uint32_t, std::vector<caching::SegmentInfo>> pools;
  std::vector<std::string> doubts;  // what does not fit together, a sentence each
  std::uint64_t reserved_bytes = 0;
};

// Sizes of blocks that are known better than from the history: address -> bytes.
using KnownExtents = std::unordered_map<std::uint64_t, std::uint64_t>;

[[nodiscard]] StartHeap rebuild_start_heap(const DeviceHistory& history,
                                           const caching::Settings& settings,
                                           const KnownExtents& known);

}  // namespace allocmark

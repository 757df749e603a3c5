// What the caching allocator holds, segment by segment and block by block, in the words of
// torch.cuda.memory._snapshot().
#pragma once

#include <vector>

#include "allocators/caching/allocator.h"
#include "allocators/caching/segment_info.h"

namespace allocmark::caching {

// By address.
[[nodiscard]] std::vector<SegmentInfo> take_snapshot(const CachingAllocator& allocator);

}  // namespace allocmark::caching

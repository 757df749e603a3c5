// The part of the heap that takes over what another allocator had: segments with their blocks, as a
// snapshot shows them.
#include <algorithm>
#include <map>
#include <tuple>

#include "allocators/caching/heap.h"
#include "base/assert.h"

namespace allocmark::caching {

void Heap::adopt(const std::vector<SegmentInfo>& segments) {
  // One expandable segment for each pool and stream; the snapshot shows its mapped ranges.
  std::map<std::tuple<std::uint64_t, Stream, PoolKind>, std::vector<SegmentInfo>> expandable;
  for (const SegmentInfo& segment : segments) {
    if (segment.expandable) {
      expandable[{segment.pool, segment.stream, segment.kind}].push_back(segment);
    } else {
      carve(adopt_segment(segment), segment);
    }
  }
  for (auto& [key, ranges] : expandable) {
    std::ranges::sort(ranges, {}, &SegmentInfo::address);
    adopt_expandable(ranges);
  }
}

// A private pool that is not there yet is made, used once.
StreamBlocks& Heap::home_of(const SegmentInfo& segment) {
  Pool& owner =
      segment.pool == 0 ? pool(segment.kind) : make_private_pool(segment.pool).of(segment.kind);
  return owner.of(segment.stream);
}

Block* Heap::adopt_segment(const SegmentInfo& segment) {
  Block* block = slab_.make();
  block->address = segment.address;
  block->size_bytes = segment.total_bytes;
  block->home = &home_of(segment);
  block->order = next_order();
  counters.segment.increase(segment.kind, 1);
  count_reserved(*block->home->pool, segment.total_bytes);
  count_served(*block->home->pool);
  if (segment.total_bytes >= settings_.max_split_size_bytes) counters.oversize_segments.increase(1);
  ++counters.num_device_alloc;
  return block;
}

// The driver's reservation begins at the first range.
void Heap::adopt_expandable(const std::vector<SegmentInfo>& ranges) {
  StreamBlocks& home = home_of(ranges.front());
  Block* hole = make_expandable_segment(home);
  for (const SegmentInfo& range : ranges) {
    ALLOCMARK_ASSERT(range.address >= hole->address);
    if (range.address > hole->address) {
      erase_from_set(hole);
      Block* front = split_front(hole, range.address - hole->address);
      front->mapped = false;
      insert_unmapped(front);
      insert_unmapped(hole);
    }
    const bool mapped = map_block(hole, range.total_bytes);
    ALLOCMARK_ASSERT(mapped);
    count_served(*home.pool);
    ALLOCMARK_ASSERT(hole->next != nullptr);
    Block* following = hole->next;
    erase_free(hole);
    carve(hole, range);
    hole = following;
  }
}

// Cuts a block in no set, which is a whole segment or range, into the blocks of the snapshot.
void Heap::carve(Block* block, const SegmentInfo& segment) {
  const bool counts_splits = block->segment == nullptr;
  for (const BlockInfo& info : segment.blocks) {
    ALLOCMARK_ASSERT(info.address == block->address);
    ALLOCMARK_ASSERT(info.size_bytes <= block->size_bytes);
    Block* piece =
        info.size_bytes < block->size_bytes ? split_front(block, info.size_bytes) : block;
    piece->requested_bytes = info.requested_bytes;
    if (info.state == BlockState::Inactive) {
      insert_free(piece);
      if (counts_splits && segment.blocks.size() > 1) {
        counters.inactive_split.increase(segment.kind, 1);
        counters.inactive_split_bytes.increase(segment.kind, signed_bytes(info.size_bytes));
      }
      continue;
    }
    piece->allocated = true;
    allocated.insert(piece);
    counters.allocation.increase(segment.kind, 1);
    counters.allocated_bytes.increase(segment.kind, signed_bytes(info.size_bytes));
    counters.active.increase(segment.kind, 1);
    counters.active_bytes.increase(segment.kind, signed_bytes(info.size_bytes));
    count_used(*piece->home->pool, info.size_bytes);
    counters.requested_bytes.increase(segment.kind, signed_bytes(info.requested_bytes));
    if (info.size_bytes >= settings_.max_split_size_bytes)
      counters.oversize_allocations.increase(1);
  }
}

}  // namespace allocmark::caching

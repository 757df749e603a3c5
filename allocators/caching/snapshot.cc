#include "allocators/caching/snapshot.h"

namespace allocmark::caching {
namespace {

BlockState state_of(const Block& block) {
  if (block.allocated) return BlockState::ActiveAllocated;
  return block.is_unused() ? BlockState::Inactive : BlockState::ActivePendingFree;
}

void append_block(SegmentInfo& segment, const Block& block) {
  const BlockState state = state_of(block);
  segment.total_bytes += block.size_bytes;
  if (state == BlockState::ActiveAllocated) segment.allocated_bytes += block.size_bytes;
  if (state != BlockState::Inactive) {
    segment.active_bytes += block.size_bytes;
    segment.requested_bytes += block.requested_bytes;
  }
  segment.blocks.push_back({block.address, block.size_bytes, block.requested_bytes, state});
}

SegmentInfo begin_segment(const Block& first) {
  const PrivatePool* owner = first.home->pool->owner;
  return {.address = first.address,
          .stream = first.home->stream,
          .kind = first.home->pool->kind,
          .expandable = first.segment != nullptr,
          .pool = owner == nullptr ? 0 : owner->id};
}

}  // namespace

std::string_view to_string(BlockState state) {
  switch (state) {
    case BlockState::ActiveAllocated:
      return "active_allocated";
    case BlockState::ActivePendingFree:
      return "active_pending_free";
    case BlockState::Inactive:
      return "inactive";
  }
  return "unknown";
}

std::vector<SegmentInfo> take_snapshot(const CachingAllocator& allocator) {
  std::vector<SegmentInfo> segments;
  for (const Block* head : allocator.segment_heads()) {
    bool in_range = false;
    for (const Block* block = head; block != nullptr; block = block->next) {
      if (block->mapped && !in_range) segments.push_back(begin_segment(*block));
      if (block->mapped) append_block(segments.back(), *block);
      in_range = block->mapped;
    }
  }
  return segments;
}

}  // namespace allocmark::caching

#include "allocators/caching/snapshot.h"

#include <fmt/format.h>

#include <iterator>

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
  return {.address = first.address,
          .stream = first.home->stream,
          .kind = first.home->pool->kind,
          .expandable = first.segment != nullptr};
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

std::string to_json(const std::vector<SegmentInfo>& segments) {
  std::string text = "[";
  const auto out = std::back_inserter(text);
  for (const SegmentInfo& segment : segments) {
    fmt::format_to(
        out,
        R"({}{{"device":0,"address":{},"total_size":{},"allocated_size":{},"active_size":{},)"
        R"("requested_size":{},"stream":{},"segment_type":"{}","segment_pool_id":[0,0],)"
        R"("is_expandable":{},"frames":[],"blocks":[)",
        text.size() > 1 ? "," : "", segment.address, segment.total_bytes, segment.allocated_bytes,
        segment.active_bytes, segment.requested_bytes, segment.stream,
        segment.kind == PoolKind::Small ? "small" : "large", segment.expandable);
    const char* separator = "";
    for (const BlockInfo& block : segment.blocks) {
      fmt::format_to(out,
                     R"({}{{"address":{},"size":{},"requested_size":{},"state":"{}","frames":[]}})",
                     separator, block.address, block.size_bytes, block.requested_bytes,
                     to_string(block.state));
      separator = ",";
    }
    text += "]}";
  }
  return text + "]";
}

}  // namespace allocmark::caching

#include "harness/core/recorded/start_heap.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "allocators/caching/sizes.h"

namespace allocmark {
namespace {

using caching::BlockInfo;
using caching::BlockState;
using caching::PoolKind;
using caching::SegmentInfo;

struct Area {
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  std::uint32_t pool = 0;
  std::optional<bool> is_large{};  // nothing: the history does not say
  bool expandable = false;
};
using Areas = std::map<std::uint64_t, Area>;  // by address

// The area that holds the address; end() where none does.
Areas::iterator area_at(Areas& areas, std::uint64_t address) {
  auto after = areas.upper_bound(address);
  if (after == areas.begin()) return areas.end();
  const auto found = std::prev(after);
  return address < found->first + found->second.size_bytes ? found : areas.end();
}

// Takes [address, address + size_bytes) out of an expandable area; what is left of it stays.
void cut(Areas& areas, std::uint64_t address, std::uint64_t size_bytes) {
  const std::uint64_t end = address + size_bytes;
  while (address < end) {
    const auto found = area_at(areas, address);
    if (found == areas.end()) return;
    const std::uint64_t begin = found->first;
    Area area = found->second;
    const std::uint64_t area_end = begin + area.size_bytes;
    areas.erase(found);
    if (begin < address) {
      area.size_bytes = address - begin;
      areas[begin] = area;
    }
    if (area_end > end) {
      area.size_bytes = area_end - end;
      areas[end] = area;
    }
    address = area_end;
  }
}

Areas final_areas(const DeviceHistory& history) {
  Areas areas;
  for (const SnapshotSegment& segment : history.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) != history.device()) continue;
    areas[segment.address] = {.size_bytes = segment.size_bytes,
                              .stream = segment.stream,
                              .pool = segment.pool,
                              .is_large = segment.is_large,
                              .expandable = segment.is_expandable};
  }
  return areas;
}

void undo(Areas& areas, const SnapshotEntry& entry) {
  const Area area{.size_bytes = entry.size_bytes,
                  .stream = static_cast<std::uint32_t>(entry.stream),
                  .pool = static_cast<std::uint32_t>(entry.pool)};
  switch (entry.action) {
    case SnapshotAction::SegmentAlloc:
      areas.erase(entry.address);
      return;
    case SnapshotAction::SegmentFree:
      areas[entry.address] = area;
      areas[entry.address].is_large = entry.size_bytes != caching::kSmallSegmentSize;
      return;
    case SnapshotAction::SegmentMap:
      return cut(areas, entry.address, entry.size_bytes);
    case SnapshotAction::SegmentUnmap:
      areas[entry.address] = area;
      areas[entry.address].expandable = true;
      return;
    default:
      return;
  }
}

// Ranges that were unmapped and are known by their neighbours, or by their size.
void settle_kinds(Areas& areas, const caching::Settings& settings) {
  for (auto& [address, area] : areas) {
    if (area.is_large) continue;
    for (const auto& [other_address, other] : areas) {
      const bool same = other.expandable && other.is_large && other.stream == area.stream;
      const bool touches =
          other_address == address + area.size_bytes || other_address + other.size_bytes == address;
      if (same && touches) area.is_large = other.is_large;
    }
    if (!area.is_large) area.is_large = area.size_bytes % settings.large_segment_size_bytes == 0;
  }
}

// Ranges of one expandable segment that touch are one.
void join(Areas& areas) {
  for (auto at = areas.begin(); at != areas.end();) {
    const auto next = std::next(at);
    if (next == areas.end()) return;
    Area& area = at->second;
    const Area& other = next->second;
    const bool joins = area.expandable && other.expandable && area.stream == other.stream &&
                       area.pool == other.pool && area.is_large == other.is_large &&
                       at->first + area.size_bytes == next->first;
    if (!joins) {
      at = next;
      continue;
    }
    area.size_bytes += other.size_bytes;
    areas.erase(next);
  }
}

// Where the free memory behind each earlier block begins, as far as the history tells: a request
// that is served from a free block gets its front, so the first one behind a block that is still
// live shows where that block ends. 0 where there was none.
std::unordered_map<std::uint64_t, std::uint64_t> find_fronts(
    const DeviceHistory& history, const std::vector<EarlierBlock>& blocks, Areas& areas) {
  std::unordered_map<std::uint64_t, std::uint64_t> fronts;
  std::map<std::uint64_t, std::uint64_t> live;  // address -> where the room behind it ends
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto area = area_at(areas, blocks[i].address);
    if (area == areas.end()) continue;
    const std::uint64_t end = area->first + area->second.size_bytes;
    live[blocks[i].address] = i + 1 < blocks.size() ? std::min(end, blocks[i + 1].address) : end;
  }
  for (std::uint64_t i = 0; i < history.size() && !live.empty(); ++i) {
    const SnapshotEntry& entry = history[i];
    if (entry.action == SnapshotAction::FreeCompleted) live.erase(entry.address);
    if (entry.action != SnapshotAction::Alloc) continue;
    const auto after = live.upper_bound(entry.address);
    if (after == live.begin()) continue;
    const auto& [address, room_end] = *std::prev(after);
    if (entry.address < room_end) fronts.try_emplace(address, entry.address);
  }
  return fronts;
}

// How much of the room up to the next block a live block has: what the allocator's rule for
// splitting left with it.
std::uint64_t extent(const EarlierBlock& block, std::uint64_t room_bytes, std::uint64_t front,
                     const Area& area, const caching::Settings& settings) {
  if (block.size_bytes > 0) return block.size_bytes;
  const std::uint64_t size_bytes = caching::round_request(block.requested_bytes, settings);
  if (size_bytes >= room_bytes) return size_bytes;
  if (!area.is_large.value_or(true) || settings.expandable_segments) return size_bytes;
  const std::uint64_t rest_bytes = room_bytes - size_bytes;
  const bool whole =
      size_bytes >= settings.max_split_size_bytes || rest_bytes <= caching::kSmallSizeMax;
  if (whole) return room_bytes;
  const std::uint64_t end = block.address + size_bytes;
  if (front < end || front - end > caching::kSmallSizeMax) return size_bytes;
  return std::min(front - block.address, room_bytes);
}

void add_block(SegmentInfo& segment, const BlockInfo& block) {
  if (block.state != BlockState::Inactive) {
    segment.active_bytes += block.size_bytes;
    segment.requested_bytes += block.requested_bytes;
  }
  if (block.state == BlockState::ActiveAllocated) segment.allocated_bytes += block.size_bytes;
  segment.blocks.push_back(block);
}

}  // namespace

StartHeap rebuild_start_heap(const DeviceHistory& history, const caching::Settings& settings,
                             const KnownExtents& known) {
  StartHeap heap;
  Areas areas = final_areas(history);
  for (std::uint64_t i = history.size(); i > 0; --i) undo(areas, history[i - 1]);
  settle_kinds(areas, settings);
  join(areas);
  const std::vector<EarlierBlock>& blocks = history.earlier_blocks();
  std::unordered_map<std::uint64_t, std::uint64_t> fronts = find_fronts(history, blocks, areas);
  std::size_t at = 0;
  std::uint64_t homeless_count = 0;
  for (const auto& [address, area] : areas) {
    SegmentInfo segment{.address = address,
                        .total_bytes = area.size_bytes,
                        .stream = static_cast<caching::Stream>(area.stream),
                        .kind = area.is_large.value_or(true) ? PoolKind::Large : PoolKind::Small,
                        .expandable = area.expandable};
    const std::uint64_t end = address + area.size_bytes;
    std::uint64_t place = address;
    for (; at < blocks.size() && blocks[at].address < end; ++at) {
      const EarlierBlock& block = blocks[at];
      if (block.address < place) {
        ++homeless_count;
        continue;
      }
      if (block.address > place) add_block(segment, {place, block.address - place, 0});
      const bool last = at + 1 == blocks.size() || blocks[at + 1].address >= end;
      const std::uint64_t room_bytes = (last ? end : blocks[at + 1].address) - block.address;
      const std::uint64_t size_bytes =
          std::min(known.contains(block.address)
                       ? known.at(block.address)
                       : extent(block, room_bytes, fronts[block.address], area, settings),
                   room_bytes);
      add_block(segment,
                {block.address, size_bytes, block.requested_bytes,
                 block.pending ? BlockState::ActivePendingFree : BlockState::ActiveAllocated});
      place = block.address + size_bytes;
    }
    if (place < end) add_block(segment, {place, end - place, 0});
    heap.reserved_bytes += area.size_bytes;
    heap.pools[area.pool].push_back(std::move(segment));
  }
  homeless_count += blocks.size() - at;
  if (homeless_count > 0) {
    heap.doubts.push_back(fmt::format(
        "{} blocks that were live before the history lie in no segment", homeless_count));
  }
  return heap;
}

}  // namespace allocmark

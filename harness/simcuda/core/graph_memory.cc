#include "harness/simcuda/core/graph_memory.h"

#include <algorithm>
#include <utility>

namespace simcuda {

GraphMemory::GraphMemory(PhysicalMemory& memory, StreamOrder& streams, ReservedArea& area,
                         std::function<void(Work&)> on_shortage)
    : memory_(memory), streams_(streams), area_(area), on_shortage_(std::move(on_shortage)) {}

ArenaId GraphMemory::create_arena() {
  arenas_.emplace(next_arena_, Arena{});
  return next_arena_++;
}

void GraphMemory::hold(ArenaId arena) {
  const auto found = arenas_.find(arena);
  if (found != arenas_.end()) ++found->second.hold_count;
}

void GraphMemory::let_go(ArenaId arena) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || found->second.hold_count == 0) return;
  --found->second.hold_count;
  forget_if_unused(arena);
}

void GraphMemory::forget_if_unused(ArenaId arena) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || found->second.hold_count != 0 || found->second.live_count != 0) {
    return;
  }
  for (Segment& segment : found->second.segments) {
    for (std::size_t& chunk : segment.chunks) drop(chunk);
    segments_.erase(segment.range.lo);
    static_cast<void>(area_.give(segment.range.lo));
  }
  arenas_.erase(found);
  note_usage();
}

std::optional<std::uint64_t> GraphMemory::place(ArenaId arena, std::uint64_t size_bytes,
                                                std::span<const Range> taken) {
  const auto found = arenas_.find(arena);
  if (found == arenas_.end() || size_bytes > memory_.total_bytes()) return std::nullopt;
  Arena& at = found->second;
  const std::uint64_t rounded_bytes = round_up(size_bytes, kUnitBytes);
  for (const Segment& segment : at.segments) {
    // The lowest gap: no range ends later than those that stand in the way of the candidate.
    std::uint64_t candidate = segment.range.lo;
    for (bool moved = true; moved && candidate + rounded_bytes <= segment.range.hi;) {
      moved = false;
      for (const Range range : taken) {
        if (!range.overlaps({candidate, candidate + rounded_bytes})) continue;
        candidate = round_up(range.hi, kUnitBytes);
        moved = true;
      }
    }
    if (candidate + rounded_bytes <= segment.range.hi) {
      at.allocations.push_back({.range = {candidate, candidate + size_bytes}});
      return candidate;
    }
  }
  const std::uint64_t segment_bytes = round_up(rounded_bytes, kChunkBytes);
  const std::optional<std::uint64_t> lo = area_.take(segment_bytes);
  if (!lo) return std::nullopt;
  at.segments.push_back(
      {.range = {*lo, *lo + segment_bytes},
       .chunks = std::vector<std::size_t>(segment_bytes / kChunkBytes, kNoChunk)});
  segments_.emplace(*lo, arena);
  at.allocations.push_back({.range = {*lo, *lo + size_bytes}});
  return lo;
}

bool GraphMemory::plan_free(std::uint64_t address, ArenaId by) {
  const auto segment = last_up_to(segments_, address);
  if (segment == segments_.end()) return false;
  const ArenaId owner = segment->second;
  std::vector<Allocation>& allocations = arenas_.at(owner).allocations;
  const auto found = std::find_if(allocations.rbegin(), allocations.rend(),
                                  [&](const Allocation& at) { return at.range.lo == address; });
  if (found == allocations.rend() || found->freed_by == FreedBy::OwnGraph) return false;
  if (owner == by && found->freed_by == FreedBy::OtherGraph) return false;
  found->freed_by = owner == by ? FreedBy::OwnGraph : FreedBy::OtherGraph;
  return true;
}

const GraphMemory::Arena* GraphMemory::arena_holding(std::uint64_t address) const {
  const auto segment = last_up_to(segments_, address);
  if (segment == segments_.end()) return nullptr;
  const Arena& arena = arenas_.at(segment->second);
  const auto has_it = [&](const Segment& at) { return at.range.holds(address); };
  return std::ranges::any_of(arena.segments, has_it) ? &arena : nullptr;
}

bool GraphMemory::holds(std::uint64_t address) const { return arena_holding(address) != nullptr; }

Range GraphMemory::planned_block(std::uint64_t address) const {
  const Arena* const arena = arena_holding(address);
  if (arena == nullptr) return {};
  const auto found = std::find_if(arena->allocations.rbegin(), arena->allocations.rend(),
                                  [&](const Allocation& at) { return at.range.holds(address); });
  return found == arena->allocations.rend() ? Range{} : found->range;
}

bool GraphMemory::begin_block(ArenaId arena, Range range) {
  const auto owner = arenas_.find(arena);
  if (owner == arenas_.end() || range.empty() || arena_holding(range.lo) != &owner->second) {
    return false;
  }
  Block block{.hi = range.hi, .arena = arena, .chunks = {}};
  for (const Segment& segment : owner->second.segments) {
    if (!segment.range.overlaps(range)) continue;
    const std::uint64_t first = (range.lo - segment.range.lo) / kChunkBytes;
    const std::uint64_t last = (range.hi - 1 - segment.range.lo) / kChunkBytes;
    for (std::uint64_t i = first; i <= last; ++i) {
      if (segment.chunks[i] != kNoChunk) block.chunks.push_back(segment.chunks[i]);
    }
  }
  const auto [at, added] = blocks_.try_emplace(range.lo, std::move(block));
  if (!added) return false;
  for (const std::size_t chunk : at->second.chunks) ++chunks_[chunk].pin_count;
  ++owner->second.live_count;
  return true;
}

bool GraphMemory::end_block(std::uint64_t address, StreamId stream, std::uint64_t now_ns) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  const Position position = streams_.mark(stream, now_ns);
  for (const std::size_t chunk : block->second.chunks) {
    chunks_[chunk].stream = stream;
    chunks_[chunk].position = position;
  }
  unpin(block);
  return true;
}

bool GraphMemory::end_block(std::uint64_t address) {
  const auto block = blocks_.find(address);
  if (block == blocks_.end()) return false;
  unpin(block);
  return true;
}

void GraphMemory::unpin(std::map<std::uint64_t, Block>::iterator block) {
  for (const std::size_t chunk : block->second.chunks) --chunks_[chunk].pin_count;
  const ArenaId arena = block->second.arena;
  --arenas_.at(arena).live_count;
  blocks_.erase(block);
  forget_if_unused(arena);
  note_usage();
}

Range GraphMemory::find_block(std::uint64_t address) const {
  const auto block = last_up_to(blocks_, address);
  if (block == blocks_.end() || address >= block->second.hi) return {};
  return {block->first, block->second.hi};
}

}  // namespace simcuda

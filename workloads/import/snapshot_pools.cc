#include "workloads/import/snapshot_pools.h"

#include <algorithm>

#include "workloads/import/reservations.h"

namespace allocmark {

bool is_of_graph(const MemorySnapshot& snapshot, std::uint32_t pool) {
  return pool < snapshot.pools.size() && snapshot.pools[pool].first != 0;
}

bool is_request(SnapshotAction action) {
  return action == SnapshotAction::Alloc || action == SnapshotAction::Oom ||
         action == SnapshotAction::FreeRequested;
}

bool is_growth(SnapshotAction action) {
  return action == SnapshotAction::SegmentAlloc || action == SnapshotAction::SegmentMap;
}

bool is_release(SnapshotAction action) {
  return action == SnapshotAction::SegmentFree || action == SnapshotAction::SegmentUnmap;
}

PoolsOfGrowth final_pools(const DeviceHistory& history) {
  PoolsOfGrowth pools = pools_of_reservations(history);
  if (history.snapshot().pools.size() == 1) return pools;
  std::map<std::uint64_t, std::uint64_t> growth;  // address -> last entry that took it
  for (std::uint64_t i = 0; i < history.size(); ++i) {
    const SnapshotAction action = history[i].action;
    if (is_growth(action)) growth[history[i].address] = i;
    if (action == SnapshotAction::SegmentFree) growth.erase(history[i].address);
  }
  for (const SnapshotSegment& segment : history.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) != history.device() || segment.pool == 0) continue;
    const auto end = growth.lower_bound(segment.address + segment.size_bytes);
    for (auto at = growth.lower_bound(segment.address); at != end; ++at)
      pools[at->second] = segment.pool;
  }
  return pools;
}

void PoolAreas::put(std::uint64_t address, const Area& area) {
  auto at = areas_.upper_bound(address);
  if (at != areas_.begin()) {
    const auto before = std::prev(at);
    if (before->first == address) {
      at = before;
    } else {
      before->second.end = std::min(before->second.end, address);
    }
  }
  while (at != areas_.end() && at->first < area.end) at = areas_.erase(at);
  areas_[address] = area;
}

const PoolAreas::Area* PoolAreas::find(std::uint64_t address) const {
  const auto after = areas_.upper_bound(address);
  if (after == areas_.begin()) return nullptr;
  const Area& area = std::prev(after)->second;
  return address < area.end ? &area : nullptr;
}

// Where the history took the same addresses, it says more.
void PoolAreas::add_final() {
  for (const SnapshotSegment& segment : history_.snapshot().segments) {
    if (static_cast<std::size_t>(segment.device) != history_.device()) continue;
    put(segment.address, {.end = segment.address + segment.size_bytes,
                          .pool = segment.pool,
                          .is_small = !segment.is_large,
                          .expandable = segment.is_expandable});
  }
}

PoolAreas::Region PoolAreas::region_at(std::uint64_t address) const {
  auto at = areas_.upper_bound(address);
  if (at == areas_.begin()) return {};
  --at;
  if (address >= at->second.end) return {};
  Region region{.begin = at->first,
                .end = at->second.end,
                .pool = at->second.pool,
                .is_small = at->second.is_small,
                .expandable = at->second.expandable};
  if (!region.expandable) return region;
  for (; at != areas_.begin(); region.begin = at->first) {
    const auto before = std::prev(at);
    if (before->second.end != at->first || before->second.pool != region.pool) break;
    at = before;
  }
  for (at = areas_.find(region.begin); at != areas_.end() && at->first <= region.end; ++at) {
    if (at->second.pool == region.pool) region.end = std::max(region.end, at->second.end);
  }
  return region;
}

std::uint32_t PoolAreas::pool_at(std::uint64_t address) const {
  const Area* const area = find(address);
  return area == nullptr ? 0 : area->pool;
}

std::uint64_t PoolAreas::growth_at(std::uint64_t address) const {
  const Area* const area = find(address);
  return area == nullptr ? kNoGrowth : area->growth_index;
}

// A request that took memory is of that memory's pool; any other of the pool where it lies.
std::uint32_t PoolAreas::pool_of(std::uint64_t begin, std::uint64_t index) const {
  const SnapshotEntry& entry = history_[index];
  if (entry.has_pool) return static_cast<std::uint32_t>(entry.pool);
  if (entry.action == SnapshotAction::Oom) return 0;
  for (std::uint64_t i = begin; i < index; ++i) {
    if (!is_growth(history_[i].action)) continue;
    const auto found = pools_.find(i);
    return found == pools_.end() ? 0 : found->second;
  }
  return pool_at(entry.address);
}

std::uint32_t PoolAreas::take(std::uint64_t begin, std::uint64_t index) {
  const std::uint32_t pool = pool_of(begin, index);
  for (std::uint64_t i = begin; i < index; ++i) {
    const SnapshotEntry& entry = history_[i];
    if (!is_growth(entry.action)) continue;
    put(entry.address, {.end = entry.address + entry.size_bytes,
                        .pool = pool,
                        .growth_index = i,
                        .is_small = entry.size_bytes == kSnapshotSmallSegmentBytes,
                        .expandable = entry.action == SnapshotAction::SegmentMap});
  }
  return pool;
}

bool has_private_pools(const DeviceHistory& history, const PoolsOfGrowth& pools) {
  return history.snapshot().pools.size() > 1 || !pools.empty();
}

std::vector<std::uint16_t> entry_pools(const DeviceHistory& history, const PoolsOfGrowth& pools) {
  if (!has_private_pools(history, pools)) return {};
  PoolAreas areas(history, pools);
  areas.add_final();
  std::vector<std::uint16_t> of_entries(history.size());
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < history.size(); ++i) {
    const SnapshotEntry& entry = history[i];
    std::uint32_t pool = 0;
    if (is_request(entry.action)) {
      pool = areas.take(begin, i);
      begin = i + 1;
    } else if (is_release(entry.action)) {
      pool = entry.has_pool ? static_cast<std::uint32_t>(entry.pool) : areas.pool_at(entry.address);
    }
    of_entries[i] = static_cast<std::uint16_t>(pool);
  }
  return of_entries;
}

}  // namespace allocmark

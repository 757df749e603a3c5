#include "workloads/import/snapshot_pools.h"

#include <algorithm>
#include <optional>

namespace allocmark {
namespace {

// Small requests of PyTorch get segments and pages of this size, and large ones get larger ones.
constexpr std::uint64_t kSmallSegmentBytes = std::uint64_t{2} << 20;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

struct Reservation {
  std::uint64_t begin = 0;  // of its mapped ranges
  std::uint64_t end = 0;
  std::uint64_t stream = 0;
  bool is_small = false;
  std::uint64_t mapped_bytes = 0;
  std::uint64_t born = 0;        // entry that mapped the first range
  std::uint64_t died = kNever;   // entry that unmapped the last one
  std::uint64_t burst = kNever;  // first of the entries around `died` that gave memory back
  std::vector<std::uint64_t> growth{};
  std::optional<std::uint32_t> pool{};
};

// Which pool an expandable segment is of whose pool the snapshot does not name, because it was gone
// at the end. Each pool has one of its own for each stream and kind of block, far from all others
// in the address space. So two that were there at one time, on one stream, are of two pools. The
// pool of a mapped range is named by the entry that mapped it, and numbers count on from the
// snapshot's pools; nothing is named where blocks were live before the history.
class Reservations {
 public:
  explicit Reservations(const DeviceHistory& history) : history_(history) {}

  [[nodiscard]] std::unordered_map<std::uint64_t, std::uint32_t> run() {
    // Where memory was there before, what is mapped next may be a part of it.
    if (!history_.earlier_blocks().empty()) return {};
    std::uint64_t burst = kNever;
    for (std::uint64_t i = 0; i < history_.size(); ++i) {
      const SnapshotEntry& entry = history_[i];
      if (entry.has_pool) return {};  // this release names pools
      if (entry.action == SnapshotAction::SegmentMap) map(entry, i);
      if (entry.action == SnapshotAction::SegmentUnmap) {
        if (burst == kNever) burst = i;
        unmap(entry, i, burst);
      } else if (entry.action != SnapshotAction::FreeCompleted &&
                 entry.action != SnapshotAction::SegmentFree) {
        burst = kNever;
      }
    }
    if (all_.empty()) return {};
    name();
    std::unordered_map<std::uint64_t, std::uint32_t> pools;
    for (const Reservation& one : all_) {
      if (one.pool.value_or(0) == 0) continue;
      for (const std::uint64_t growth : one.growth) pools[growth] = *one.pool;
    }
    return pools;
  }

 private:
  // The live one that this address is in, or right behind.
  [[nodiscard]] Reservation* find(std::uint64_t address) {
    const auto after = live_.upper_bound(address);
    if (after == live_.begin()) return nullptr;
    Reservation& one = all_[std::prev(after)->second];
    return address <= one.end ? &one : nullptr;
  }

  void map(const SnapshotEntry& entry, std::uint64_t index) {
    Reservation* one = find(entry.address);
    if (one == nullptr) {
      live_[entry.address] = all_.size();
      one = &all_.emplace_back(Reservation{.begin = entry.address,
                                           .stream = entry.stream,
                                           .is_small = entry.size_bytes == kSmallSegmentBytes,
                                           .born = index});
    }
    one->end = std::max(one->end, entry.address + entry.size_bytes);
    one->mapped_bytes += entry.size_bytes;
    one->growth.push_back(index);
  }

  void unmap(const SnapshotEntry& entry, std::uint64_t index, std::uint64_t burst) {
    Reservation* const one = find(entry.address);
    // Part of it may be from before the history.
    if (one == nullptr || entry.address == one->end) return;
    one->mapped_bytes -= std::min<std::uint64_t>(one->mapped_bytes, entry.size_bytes);
    if (one->mapped_bytes > 0) return;
    one->died = index;
    one->burst = burst;
    live_.erase(one->begin);
  }

  // What the end shows, then what follows from it.
  void name() {
    for (const SnapshotSegment& segment : history_.snapshot().segments) {
      if (static_cast<std::size_t>(segment.device) != history_.device()) continue;
      for (Reservation& one : all_) {
        const bool overlaps =
            segment.address < one.end && one.begin < segment.address + segment.size_bytes;
        if (one.died == kNever && overlaps) one.pool = segment.pool;
      }
    }
    for (Reservation& one : all_) {
      if (!one.pool) one.pool = beside_common(one) ? new_pool(one) : 0;
    }
  }

  [[nodiscard]] bool beside_common(const Reservation& one) const {
    return std::ranges::any_of(all_, [&](const Reservation& other) {
      return &other != &one && other.pool == 0u && other.stream == one.stream &&
             other.is_small == one.is_small && other.born < one.died && one.born < other.died;
    });
  }

  // That of another one that went back to the device with it, and is of another kind or stream.
  [[nodiscard]] std::uint32_t new_pool(const Reservation& one) {
    const auto first = static_cast<std::uint32_t>(history_.snapshot().pools.size());
    for (const Reservation& other : all_) {
      const std::uint32_t pool = other.pool.value_or(0);
      if (pool < first || other.burst != one.burst) continue;
      const bool taken = std::ranges::any_of(all_, [&](const Reservation& third) {
        return third.pool == pool && third.stream == one.stream && third.is_small == one.is_small;
      });
      if (!taken) return pool;
    }
    return first + new_count_++;
  }

  const DeviceHistory& history_;
  std::vector<Reservation> all_;
  std::map<std::uint64_t, std::size_t> live_;  // first address -> index
  std::uint32_t new_count_ = 0;
};

}  // namespace

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
  PoolsOfGrowth pools = Reservations(history).run();
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
  Region region{at->second, at->first};
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
                        .is_small = entry.size_bytes == kSmallSegmentBytes,
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

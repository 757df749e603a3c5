#include "workloads/import/reservations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace allocmark {
namespace {

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
      one =
          &all_.emplace_back(Reservation{.begin = entry.address,
                                         .stream = entry.stream,
                                         .is_small = entry.size_bytes == kSnapshotSmallSegmentBytes,
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

std::unordered_map<std::uint64_t, std::uint32_t> pools_of_reservations(
    const DeviceHistory& history) {
  return Reservations(history).run();
}

}  // namespace allocmark

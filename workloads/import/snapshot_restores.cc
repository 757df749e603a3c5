#include "workloads/import/snapshot_restores.h"

#include <algorithm>

namespace allocmark {
namespace {

constexpr std::uint64_t kBlockBytes = 512;  // every block is whole ones
constexpr std::uint64_t kSmallRequestBytesMax = std::uint64_t{1} << 20;  // in a small segment

// The entries that put back one pool.
class Sequence {
 public:
  Sequence(const DeviceHistory& history, const PoolAreas& areas, std::uint64_t begin)
      : history_(history), areas_(areas), at_(begin) {
    while (take_segment()) {
    }
  }

  [[nodiscard]] std::uint64_t end() const { return at_; }
  [[nodiscard]] bool is_restore() const { return is_odd_ || (has_several_ && filled_count_ >= 3); }
  void note(Restores& restores) const {
    ++restores.count;
    for (const auto& [address, block] : blocks_) {
      restores.blocks[block.entry] = block.freed == 0;
      if (block.freed != 0) restores.frees.insert({block.freed, block.freed + 1});
    }
  }

 private:
  struct Block {
    std::uint64_t entry = 0;
    std::uint64_t freed = 0;  // entry, or 0
  };

  // The blocks of one segment from its begin on, and the frees of some.
  bool take_segment() {
    if (at_ >= history_.size() || history_[at_].action != SnapshotAction::Alloc) return false;
    const PoolAreas::Region region = areas_.region_at(history_[at_].address);
    if (region.pool == 0 || history_[at_].address != region.begin) return false;
    std::uint64_t next = at_;
    std::uint64_t address = region.begin;
    bool odd = false;
    for (; next < history_.size() && address < region.end; ++next) {
      const SnapshotEntry& entry = history_[next];
      if (entry.action != SnapshotAction::Alloc || entry.address != address) break;
      if (entry.size_bytes == 0 || entry.size_bytes % kBlockBytes != 0) break;
      if (address + entry.size_bytes > region.end) break;
      odd |= region.is_small && entry.size_bytes > kSmallRequestBytesMax;
      address += entry.size_bytes;
    }
    const bool fills = address == region.end;
    if (next == at_ || (!fills && !region.expandable)) return false;
    for (std::uint64_t i = at_; i < next; ++i) blocks_[history_[i].address] = {.entry = i};
    has_several_ |= next - at_ > 1;
    filled_count_ += fills && !region.expandable ? 1 : 0;
    is_odd_ |= odd;
    at_ = next;
    take_frees(region);
    return true;
  }

  // They come by address; what the program frees behind them seldom does.
  void take_frees(const PoolAreas::Region& region) {
    std::uint64_t last = 0;
    for (; at_ + 1 < history_.size(); at_ += 2) {
      const SnapshotEntry& entry = history_[at_];
      const SnapshotEntry& completed = history_[at_ + 1];
      if (entry.action != SnapshotAction::FreeRequested ||
          completed.action != SnapshotAction::FreeCompleted || completed.address != entry.address)
        return;
      const auto found = blocks_.find(entry.address);
      const bool own = entry.address >= std::max(region.begin, last) &&
                       entry.address < region.end && found != blocks_.end() &&
                       found->second.freed == 0;
      if (!own) return;
      found->second.freed = at_;
      last = entry.address;
    }
  }

  const DeviceHistory& history_;
  const PoolAreas& areas_;
  std::uint64_t at_;
  std::unordered_map<std::uint64_t, Block> blocks_;  // by address
  bool has_several_ = false;
  bool is_odd_ = false;  // a block is larger than any request in such a segment
  std::uint64_t filled_count_ = 0;
};

}  // namespace

Restores find_restores(const DeviceHistory& history, const PoolsOfGrowth& pools) {
  Restores restores;
  if (history.snapshot().pools.size() == 1 && pools.empty()) return restores;
  PoolAreas areas(history, pools);
  areas.add_final();
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < history.size(); ++i) {
    if (!is_request(history[i].action)) continue;
    areas.take(begin, i);
    const bool takes = begin < i && is_growth(history[i - 1].action);
    begin = i + 1;
    if (takes || history[i].action != SnapshotAction::Alloc) continue;
    const Sequence sequence(history, areas, i);
    if (!sequence.is_restore()) continue;
    sequence.note(restores);
    i = sequence.end() - 1;
    begin = i + 1;
  }
  return restores;
}

}  // namespace allocmark

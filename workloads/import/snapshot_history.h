// The history of one device in a snapshot: its entries in order, what was live before the first
// one, and how far the history can be trusted.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

// A block that was there before the first entry.
struct EarlierBlock {
  std::uint64_t address = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t size_bytes = 0;  // rounded, where the block is still there at the end; else 0
  std::uint32_t stream = 0;      // index into MemorySnapshot::streams
  std::uint32_t pool = 0;
  bool pending = false;  // its owner had given it back; another stream still used it
};

class DeviceHistory {
 public:
  // The snapshot must outlive the history.
  DeviceHistory(const MemorySnapshot& snapshot, std::size_t device);

  [[nodiscard]] const MemorySnapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] std::size_t device() const { return device_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const SnapshotEntry& operator[](std::uint64_t index) const {
    return starts_.size() == 1 ? snapshot_.entries[first_ + index] : in_ranges(index);
  }

  // By address.
  [[nodiscard]] const std::vector<EarlierBlock>& earlier_blocks() const { return earlier_blocks_; }
  // Whether a burst of released segments ends before `index` and stands alone: a call of
  // empty_cache. Inside a malloc a new segment or a failure follows in the same locked section.
  // Where the device had room for that segment before, as the history shows, nothing had to go back
  // for it: then it was empty_cache, too.
  [[nodiscard]] bool is_empty_cache(std::uint64_t index) const;
  // For each free_requested its free_completed: free_index -> completed_index; entries that
  // complete at once (the very next entry) are not in it.
  struct LateFree {
    std::uint64_t requested_index = 0;
    std::uint64_t completed_index = 0;  // size() where the history ends before
    bool certain = true;  // else at once, or while the next request failed: both look alike
  };
  // By requested_index.
  [[nodiscard]] const std::vector<LateFree>& late_frees() const { return late_frees_; }

  struct Facts {
    std::uint64_t alloc_count = 0;
    std::uint64_t oom_count = 0;
    std::uint64_t late_free_count = 0;
    std::uint64_t late_bytes_peak = 0;   // requested, that waited for other streams at a time
    std::uint64_t pool_alloc_count = 0;  // requests to private pools
    std::uint64_t captured_count = 0;    // of them to pools that graphs made
    std::uint64_t synthetic_count = 0;
    bool round_count = false;    // as many entries as a ring would hold
    bool frees_at_once = false;  // it was recorded without one of the two entries of a free
    bool has_growth = false;     // it says which memory the allocator took
  };
  [[nodiscard]] const Facts& facts() const { return facts_; }
  // What a reader should know, a sentence each.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  [[nodiscard]] const SnapshotEntry& in_ranges(std::uint64_t index) const;
  void find_earlier_blocks();
  void find_late_frees();
  void find_needless_releases();
  void count_late_frees();
  // Whether the history was recorded without free_completed (skip_actions).
  [[nodiscard]] bool lacks_completion() const;
  // Whether a request lies in no segment of the end.
  [[nodiscard]] bool lies_outside() const;
  // Whether what the allocator did from this entry on was for a request that failed.
  [[nodiscard]] bool fails_next(std::uint64_t index) const;

  const MemorySnapshot& snapshot_;
  std::size_t device_;
  std::uint64_t size_ = 0;
  std::uint64_t first_ = 0;            // of the snapshot's entries, in the first range
  std::vector<std::uint64_t> starts_;  // index of the first entry of each range
  // The range of the last look, which the next one most likely is in. Several threads may look.
  mutable std::atomic<std::size_t> recent_{0};
  Facts facts_;
  std::vector<EarlierBlock> earlier_blocks_;
  std::vector<LateFree> late_frees_;
  // Where bursts of releases end that the segments behind them did not need.
  std::unordered_set<std::uint64_t> needless_ends_;
};

}  // namespace allocmark

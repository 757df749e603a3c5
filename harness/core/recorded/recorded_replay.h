// One replay of a snapshot's history on `caching`, with a device that answers as recorded. The
// self-check runs it, more than once where the heap at the start has to be found out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/core/recorded/late_streams.h"
#include "harness/core/recorded/pooled_allocator.h"
#include "harness/core/recorded/recorded_driver.h"
#include "harness/core/recorded/recorded_settings.h"
#include "harness/core/recorded/self_check.h"
#include "harness/core/recorded/start_heap.h"
#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/import/snapshot_restores.h"

namespace allocmark {

class RecordedReplay {
 public:
  // What the history leaves open.
  struct Guess {
    PoolsOfGrowth pools{};
    bool frees_waited = false;  // those that may have completed at once
  };
  // The arguments must outlive it.
  RecordedReplay(const DeviceHistory& history, const RecordedSettings& settings, const Guess& guess)
      : history_(history),
        settings_(settings),
        areas_(history, guess.pools),
        restores_(find_restores(history, guess.pools)),
        late_(history.late_frees(), guess.frees_waited),
        allocator_(driver_, settings.settings),
        difference_index_(history.size()) {}

  // A free block that the replay used and the recorded allocator did not have, or had smaller.
  struct Spurious {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t wanted_bytes = 0;  // rounded
    std::uint64_t entry_index = 0;
    std::uint64_t growth_index = 0;         // entry of the segment where PyTorch put the request
    std::uint64_t chosen_growth_index = 0;  // entry of the segment where the replay put it
    // Entries of the segments that PyTorch gave back, where the replay gave back more.
    std::vector<std::uint64_t> given_back{};
  };

  // To the end, or to the first placement that differs.
  [[nodiscard]] SelfCheck run(const StartHeap& heap, bool to_end);
  // The entry of the first difference; the history's size where there is none.
  [[nodiscard]] std::uint64_t difference_index() const { return difference_index_; }
  // Whether the first difference was a request that failed when it was recorded.
  [[nodiscard]] bool served_failed() const { return served_failed_; }
  [[nodiscard]] const std::optional<Spurious>& spurious() const { return spurious_; }

 private:
  void take_over(const StartHeap& heap);
  void take_over_pool(std::uint32_t pool, const std::vector<caching::SegmentInfo>& segments);
  // Bytes that went back to the device, by pool.
  using Released = std::map<std::uint32_t, std::uint64_t>;
  [[nodiscard]] Released released(std::uint64_t begin, std::uint64_t end) const;
  void note_stranded(std::uint64_t index);
  void empty_caches(const Released& released, std::uint64_t end);
  [[nodiscard]] std::uint64_t settle(const Released& released, std::uint64_t end,
                                     std::uint32_t pool, bool by_request);
  void put_back(std::uint64_t index);
  void request(std::uint64_t begin, std::uint64_t index);
  void give_back(std::uint64_t index);
  void fail_as_recorded(std::uint64_t index, std::uint32_t pool);
  void keep(std::uint64_t index, std::uint64_t address);
  [[nodiscard]] std::uint64_t reserved_bytes() const;
  void compare(std::uint64_t index, std::uint64_t address);
  void compare_reserved(std::uint64_t begin, std::uint64_t index);
  void note_difference(std::uint64_t index, std::string text);
  [[nodiscard]] bool final_heap_equal() const;
  [[nodiscard]] RecordedDriver::Operation operation(std::uint64_t begin, std::uint64_t index) const;
  [[nodiscard]] caching::Stream stream_of(const SnapshotEntry& entry) const {
    return history_.snapshot().streams[entry.stream];
  }

  struct Live {
    std::uint64_t address = 0;  // where the replay put it
    std::uint32_t stack = kNoStack;
    std::uint64_t requested_bytes = 0;
  };

  const DeviceHistory& history_;
  const RecordedSettings& settings_;
  PoolAreas areas_;
  Restores restores_;
  LateStreams late_;
  RecordedDriver driver_;
  PooledAllocator allocator_;
  std::unordered_map<std::uint64_t, Live> live_;             // by recorded address
  std::unordered_map<std::uint64_t, std::uint32_t> owners_;  // segment or range -> pool
  std::uint64_t live_bytes_ = 0;
  std::uint64_t stranded_bytes_max_ = 0;  // that check_.story tells
  std::uint64_t recorded_bytes_ = 0;      // that PyTorch had of the device
  SelfCheck check_;
  std::uint64_t difference_index_;
  std::optional<Spurious> spurious_;
  bool served_failed_ = false;
};

}  // namespace allocmark

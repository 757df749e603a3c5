// Blocks that were given back while another stream used them: a snapshot does not say which, only
// when they became free. Each gets a stand-in stream; blocks that became free in order share one.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "allocators/cuda/driver.h"
#include "workloads/import/snapshot_history.h"

namespace allocmark {

class LateStreams {
 public:
  struct Late {
    std::uint64_t completed_index = 0;
    std::size_t stream = 0;
  };

  // With `doubtful` also blocks that may have become free at once.
  LateStreams(const std::vector<DeviceHistory::LateFree>& late, bool doubtful) {
    for (const DeviceHistory::LateFree& free : late) {
      if (!free.certain && !doubtful) continue;
      std::size_t stream = 0;
      while (stream < last_.size() && last_[stream] > free.completed_index) ++stream;
      if (stream == last_.size()) last_.push_back(0);
      last_[stream] = free.completed_index;
      by_entry_[free.requested_index] = {free.completed_index, stream};
    }
  }

  // Null where the block became free at once.
  [[nodiscard]] const Late* find(std::uint64_t entry_index) const {
    const auto found = by_entry_.find(entry_index);
    return found == by_entry_.end() ? nullptr : &found->second;
  }
  // No stream of a program has this handle.
  [[nodiscard]] static caching::Stream handle(std::size_t stream) {
    return ~caching::Stream{0} - stream;
  }

 private:
  std::vector<std::uint64_t> last_;
  std::unordered_map<std::uint64_t, Late> by_entry_;
};

}  // namespace allocmark

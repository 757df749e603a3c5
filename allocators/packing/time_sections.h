// Time, cut where blocks begin: within a section nothing comes, so most is live where it begins.
// In: blocks. Out: which sections a block lives in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "allocators/packing/packing.h"

namespace allocmark {

class TimeSections {
 public:
  explicit TimeSections(std::span<const BlockLife> blocks) {
    for (const BlockLife& block : blocks) begins_.push_back(block.begin);
    std::ranges::sort(begins_);
    begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
  }
  [[nodiscard]] std::size_t count() const { return begins_.size(); }
  // The first section that begins at this time or later: of a block's begin its first section, of
  // its end the one behind its last.
  [[nodiscard]] std::uint32_t from(std::uint64_t time) const {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(begins_, time) - begins_.begin());
  }

 private:
  std::vector<std::uint64_t> begins_;
};

}  // namespace allocmark

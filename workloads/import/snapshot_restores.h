// Where a history shows no requests of the program, but a private pool that was put back as it was
// at a checkpoint. torch.compile's graphs do so between runs (mode="reduce-overhead"): of each
// segment every block is allocated, one behind the other, and those that were free are freed.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "workloads/import/snapshot_pools.h"

namespace allocmark {

struct Restores {
  // Entries of the blocks; whether they stay.
  std::unordered_map<std::uint64_t, bool> blocks{};
  std::unordered_set<std::uint64_t> frees{};  // entries that free those that do not
  std::uint64_t count = 0;                    // of checkpoints

  // Null where the entry is a request of the program.
  [[nodiscard]] const bool* find(std::uint64_t entry_index) const {
    const auto found = blocks.find(entry_index);
    return found == blocks.end() ? nullptr : &found->second;
  }
};

// Recognised where blocks stand where no request of their size is served, or where three segments
// or more are filled to their ends.
[[nodiscard]] Restores find_restores(const DeviceHistory& history, const PoolsOfGrowth& pools);

}  // namespace allocmark

// See snapshot_host.h.
#include "workloads/import/snapshot_host.h"

#include <algorithm>
#include <unordered_set>

namespace allocmark {

std::vector<HostStep> host_steps(const MemorySnapshot& snapshot) {
  const auto entry_of = [&](std::uint64_t index) -> const SnapshotEntry& {
    return snapshot.entries[index];
  };
  const bool completes = std::ranges::any_of(snapshot.host.entries, [&](std::uint64_t index) {
    return entry_of(index).action == SnapshotAction::FreeCompleted;
  });
  const SnapshotAction end =
      completes ? SnapshotAction::FreeCompleted : SnapshotAction::FreeRequested;
  std::vector<HostStep> steps;
  std::unordered_set<std::uint64_t> live;
  std::unordered_set<std::uint64_t> known;
  for (const std::uint64_t index : snapshot.host.entries) known.insert(entry_of(index).address);
  for (const SnapshotBlock& block : snapshot.host.held_blocks) {
    if (known.contains(block.address)) continue;
    steps.push_back({.time_us = 0, .address = block.address, .size_bytes = block.size_bytes});
  }
  for (const std::uint64_t index : snapshot.host.entries) {
    const SnapshotEntry& entry = entry_of(index);
    const bool begins = entry.action == SnapshotAction::Alloc && entry.size_bytes > 0 &&
                        live.insert(entry.address).second;
    const bool ends = entry.action == end && live.erase(entry.address) > 0;
    if (!begins && !ends) continue;
    steps.push_back({.time_us = entry.time_us,
                     .address = entry.address,
                     .size_bytes = begins ? entry.size_bytes : 0});
  }
  return steps;
}

}  // namespace allocmark

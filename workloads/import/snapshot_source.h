// A snapshot that was read already, as events. Its streams are known at the end of the first pass.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "workloads/import/snapshot_history.h"
#include "workloads/import/snapshot_pools.h"
#include "workloads/trace/source.h"

namespace allocmark {

// What becomes of private pools.
enum class SnapshotPools : std::uint8_t { Kept, Dropped };

// The history must outlive the source. `growth`: as final_pools() gives it, or a finder.
[[nodiscard]] std::unique_ptr<EventSource> snapshot_events(
    const DeviceHistory& history, const PoolsOfGrowth& growth,
    SnapshotPools pools = SnapshotPools::Kept);

// Finds the pools that a file does not name, as the self-check of `why` does: by replays on
// `caching`, which workloads do not know. Nothing where it finds no more.
using PoolFinder = std::optional<PoolsOfGrowth> (*)(const DeviceHistory& history);
// For open_pytorch_snapshot(); none before the program's main calls it. Not safe beside threads.
void set_pool_finder(PoolFinder finder);

}  // namespace allocmark

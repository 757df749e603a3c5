// A snapshot that was read already, as events. Its streams are known at the end of the first pass.
#pragma once

#include <cstdint>
#include <memory>

#include "workloads/import/snapshot_history.h"
#include "workloads/trace/source.h"

namespace allocmark {

// What becomes of private pools.
enum class SnapshotPools : std::uint8_t { Kept, Dropped };

// The history must outlive the source.
[[nodiscard]] std::unique_ptr<EventSource> snapshot_events(
    const DeviceHistory& history, SnapshotPools pools = SnapshotPools::Kept);

}  // namespace allocmark

// Which pool an expandable segment is of whose pool the snapshot does not name, because it was gone
// at the end. Each pool has one of its own for each stream and kind of block, far from all others
// in the address space. So two that were there at one time, on one stream, are of two pools.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "workloads/import/snapshot_history.h"

namespace allocmark {

// Small requests of PyTorch get segments and pages of this size, and large ones get larger ones.
inline constexpr std::uint64_t kSnapshotSmallSegmentBytes = std::uint64_t{2} << 20;

// The private pool of a mapped range, by the entry that mapped it. Numbers count on from the
// snapshot's pools. Nothing where blocks were live before the history.
[[nodiscard]] std::unordered_map<std::uint64_t, std::uint32_t> pools_of_reservations(
    const DeviceHistory& history);

}  // namespace allocmark

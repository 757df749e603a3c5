// A snapshot that was read already, as events.
#pragma once

#include <memory>

#include "workloads/import/memory_snapshot.h"
#include "workloads/trace/source.h"

namespace allocmark {

// Of its busiest device. The snapshot must outlive the source.
[[nodiscard]] std::unique_ptr<EventSource> snapshot_events(const MemorySnapshot& snapshot);

}  // namespace allocmark

// A snapshot that was read already, as events. Its streams are known at the end of the first pass.
#pragma once

#include <memory>

#include "workloads/import/snapshot_history.h"
#include "workloads/trace/source.h"

namespace allocmark {

// The history must outlive the source.
[[nodiscard]] std::unique_ptr<EventSource> snapshot_events(const DeviceHistory& history);

}  // namespace allocmark

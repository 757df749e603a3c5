// A history as a trace that ui.perfetto.dev and chrome://tracing open: reserved, live and cached
// memory as curves, failed requests and marks as events.
#pragma once

#include <string>

#include "workloads/import/memory_snapshot.h"

namespace allocmark {

void write_perfetto(const MemorySnapshot& snapshot, const std::string& path);

}  // namespace allocmark

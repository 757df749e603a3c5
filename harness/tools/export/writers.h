// A history, or a workload's requests, in the forms of other programs. Each writes a file.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/import/memory_snapshot.h"
#include "workloads/trace/source.h"

namespace allocmark {

// An instance for minimalloc (google/minimalloc): the lifetime and size of every block, as CSV with
// the columns id, lower, upper and size. What an offline planner could reach. Times are the numbers
// of entries; sizes are as requested. Blocks that stay live end with the history.
void write_minimalloc(const MemorySnapshot& snapshot, const std::string& path);

// A trace that ui.perfetto.dev and chrome://tracing open: reserved, live and cached memory as
// curves, failed requests and marks as events.
void write_perfetto(const MemorySnapshot& snapshot, const std::string& path);

struct RmmLogCounts {
  std::uint64_t row_count = 0;
  std::uint64_t left_out_count = 0;  // marks, kernels, uses on other streams and the like
};

// As RMM's logging_resource_adaptor writes them, for RMM's REPLAY_BENCH and other readers of its
// logs. One thread; a block's address is its ordinal, not a place, and the clock advances 1 us a
// row. A request that failed when the trace was recorded is an `allocate failure`. Stream 0 is the
// default stream, others count up.
[[nodiscard]] RmmLogCounts write_rmm_log(EventSource& source, const std::string& path);

}  // namespace allocmark

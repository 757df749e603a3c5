// A workload's requests as RMM's logging_resource_adaptor writes them, for RMM's REPLAY_BENCH and
// other readers of its logs. In: events. Out: a CSV file.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/trace/source.h"

namespace allocmark {

struct RmmLogCounts {
  std::uint64_t row_count = 0;
  std::uint64_t left_out_count = 0;  // marks, kernels, uses on other streams and the like
};

// One thread; a block's address is its ordinal, not a place, and the clock advances 1 us a row. A
// request that failed when the trace was recorded is an `allocate failure`. Stream 0 is the default
// stream, others count up.
[[nodiscard]] RmmLogCounts write_rmm_log(EventSource& source, const std::string& path);

}  // namespace allocmark

// What a workload yields with seed 1, held to numbers that were computed apart, on the streams that
// its head counts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tests/catch.h"
#include "tests/support/trace_files.h"
#include "workloads/open_workload.h"
#include "workloads/trace/summary.h"
#include "workloads/trace/trace_hash.h"

namespace allocmark {

struct TraceGolden {
  std::string workload;
  std::uint64_t hash, events, peak;
};

// From the beginning, and again after rewinding.
inline void check_goldens(std::span<const TraceGolden> goldens) {
  for (const TraceGolden& golden : goldens) {
    INFO(golden.workload);
    const std::unique_ptr<EventSource> source = open_workload(golden.workload, 1);
    const TraceSummary summary = summarize(*source);
    CHECK(summary.hash == golden.hash);
    CHECK(summary.event_count == golden.events);
    CHECK(summary.requested_bytes_peak == golden.peak);
    source->rewind();
    CHECK(trace_hash(*source) == golden.hash);
    source->rewind();
    for (const Event& event : read_all(*source)) {
      if (event.stream >= source->header().stream_count) FAIL("stream " << event.stream);
    }
  }
}

}  // namespace allocmark

// See rank_trace.h.
#include "harness/tools/ranks/rank_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "base/error.h"
#include "harness/core/replay/kernel_source.h"
#include "workloads/trace/source.h"

namespace allocmark {

RankTrace read_rank_trace(const std::string& workload, std::uint64_t seed,
                          std::uint64_t event_count_max) {
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(workload, seed);
  RankTrace trace;
  TraceCompiler compiler;
  while (true) {
    const std::span<const Event> events = source->next();
    if (events.empty()) break;
    compiler.compile(events, trace.steps, source->labels());
    if (trace.steps.size() > event_count_max) {
      throw UsageError({.what = "the traces of the ranks are too long",
                        .where = workload,
                        .wanted = fmt::format("at most {} events in all", kRankEventCountMax),
                        .got = "more",
                        .next = "give the job fewer steps or layers, or choose fewer ranks"});
    }
  }
  if (!source->header().jobs.empty()) {
    throw UsageError({.what = "a rank is one process",
                      .where = workload,
                      .wanted = "a workload without 'beside'",
                      .got = "several processes",
                      .next = "give every rank a workload of its own"});
  }
  trace.labels = source->labels();
  trace.facts = compiler.facts();
  trace.facts.stream_count = std::max(trace.facts.stream_count, source->header().stream_count);
  trace.slot_count = compiler.slot_count();
  return trace;
}

}  // namespace allocmark

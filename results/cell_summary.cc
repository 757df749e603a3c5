// See cell_summary.h.
#include "results/cell_summary.h"

#include <algorithm>
#include <string>
#include <vector>

#include "results/cell_words.h"
#include "results/latency_histogram.h"

namespace allocmark {

double calls_ns_total(const PassSummary& pass) {
  if (pass.calls_ns_total > 0) return pass.calls_ns_total;
  double total_ns = 0;
  for (const LatencyBuckets* buckets : {&pass.allocate_buckets, &pass.deallocate_buckets}) {
    for (const LatencyBucket& bucket : *buckets) {
      const double middle_ns =
          (bucket_lowest_ns(bucket.index) + bucket_lowest_ns(bucket.index + 1)) / 2;
      total_ns += middle_ns * static_cast<double>(bucket.count);
    }
  }
  return total_ns;
}

CellOutline outline_of(const CellResult& cell) {
  return {.key = cell.key,
          .status = cell.status,
          .is_part = cell.passes_to_come > 0,
          .decisions = decisions_of(cell),
          .record_uncalled = std::ranges::any_of(cell.warnings, [](const std::string& warning) {
            return warning.starts_with(kRecordUncalled);
          })};
}

void summarize(CellResult* cell) {
  for (PassSummary& pass : cell->passes) {
    pass.calls_ns_total = calls_ns_total(pass);
    for (LatencyBuckets* buckets : {&pass.allocate_buckets, &pass.deallocate_buckets,
                                    &pass.allocate_own_buckets, &pass.deallocate_own_buckets}) {
      LatencyBuckets().swap(*buckets);
    }
  }
  std::vector<SizeClassLatency>().swap(cell->size_classes);
  // Answers tell the processes of a workload apart, and its private pools.
  std::erase_if(cell->counters, [](const auto& one) {
    return !one.first.starts_with("process") && !one.first.starts_with("remedy.") &&
           !one.first.starts_with("private_pools.") && one.first != kRecordedOomCounter;
  });
  cell->counters.shrink_to_fit();
  decltype(cell->driver_calls)().swap(cell->driver_calls);
  cell->is_summary = true;
}

}  // namespace allocmark

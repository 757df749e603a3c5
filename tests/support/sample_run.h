// A small run with every case that the writers must tell apart: a baseline that runs out of memory,
// settings that do not, too few samples, cells without numbers, and names that try to break the
// page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/support/sample.h"

namespace allocmark::sample {

struct RunCell {
  std::string workload, allocator, conf, capacity;
  std::uint64_t oom_count = 0;
  std::uint64_t sample_count = 18000;
  double scale_ns = 40;
  std::uint64_t reserved_bytes = 3 * kGiB;
};

inline CellResult run_cell(const RunCell& from) {
  CellResult cell;
  cell.key = {.workload = from.workload,
              .allocator = from.allocator,
              .conf = from.conf,
              .device = "sim:h200",
              .capacity = from.capacity,
              .seed = 0,
              .on_oom = "skip"};
  cell.trace_name = from.workload;
  cell.event_count = 12000, cell.allocate_count = 6000, cell.deallocate_count = 6000;
  cell.oom_count = from.oom_count;
  cell.trial_count = 4, cell.trial_oom_count = from.oom_count > 0 ? 4 : 0;
  cell.capacity_bytes = 3 * kGiB + kGiB / 2;
  cell.requested_bytes_peak = 2 * kGiB;
  cell.reserved_bytes_peak = from.reserved_bytes;
  cell.allocated_bytes_peak = 2 * kGiB + 64 * kMiB;
  cell.active_bytes_peak = 2 * kGiB + 80 * kMiB;
  cell.allocated_bytes_at_reserved_peak = 2 * kGiB;
  cell.requested_bytes_at_reserved_peak = 2 * kGiB - 10 * kMiB;
  cell.device_bytes_peak = from.reserved_bytes;
  cell.device_allocate_count = 120, cell.device_free_count = 20;
  cell.pass_count = 3;
  cell.allocate = operation(from.sample_count, from.scale_ns);
  cell.deallocate = operation(from.sample_count, from.scale_ns / 2);
  for (const double factor : {0.99, 1.0, 1.01}) {
    cell.passes.push_back({.allocate_p50_ns = factor * from.scale_ns,
                           .allocate_p99_ns = factor * 3 * from.scale_ns,
                           .deallocate_p50_ns = factor * from.scale_ns / 2,
                           .wall_ns = factor * 1e6});
  }
  cell.harness_overhead_ns_p50 = 18;
  cell.wall_s = 0.02;
  return cell;
}

inline CellResult not_measured(CellResult cell, CellStatus status, const std::string& reason) {
  CellResult result;
  result.key = cell.key;
  result.status = status;
  result.reason = reason;
  return result;
}

// Requests to a server: too few of them for the highest percentiles.
inline RequestLatency requests(double scale_ns) {
  return {.latency = latency(1500, 100 * scale_ns),
          .first_token = latency(1500, 20 * scale_ns),
          .ideal_latency = latency(1500, 90 * scale_ns),
          .ideal_first_token = latency(1500, 15 * scale_ns),
          .delay = latency(1500, 10 * scale_ns)};
}

inline void fail_requests(CellResult& cell, std::uint64_t capacity, std::uint64_t fragmentation) {
  cell.oom_count = capacity + fragmentation;
  cell.oom_cause_counts = {capacity, 0, 0, fragmentation, 0};
  cell.oom_first = OomEvent{.event_index = 345,
                            .id = 77,
                            .size_bytes = 96 * kMiB,
                            .stream = 0,
                            .cause = OomCause::Fragmentation,
                            .free_largest_bytes = 64 * kMiB,
                            .free_bytes = 700 * kMiB};
}

// One experiment where the baseline fails, with every kind of outcome beside it.
inline void add_failing_experiment(std::vector<CellResult>& cells) {
  const std::string workload = "gpt2_train_amp";
  const auto caching = [&](const std::string& conf, std::uint64_t oom_count, double scale_ns) {
    return run_cell({.workload = workload,
                     .allocator = "caching",
                     .conf = conf,
                     .capacity = "1.05x",
                     .oom_count = oom_count,
                     .scale_ns = scale_ns});
  };
  cells.push_back(caching("", 12, 40));
  fail_requests(cells.back(), 2, 10);
  cells.push_back(caching("max_split_size_mb:128", 0, 44));
  cells.push_back(caching("expandable_segments:True", 0, 40.2));
  cells.back().reserved_bytes_peak = 2 * kGiB + 128 * kMiB;
  cells.push_back(
      caching("max_split_size_mb:32,garbage_collection_threshold:0.8,roundup_power2_divisions:[256:"
              "1,512:2]",
              1, 41));
  fail_requests(cells.back(), 0, 1);
  cells.push_back(run_cell({.workload = workload,
                            .allocator = "native",
                            .conf = "",
                            .capacity = "1.05x",
                            .sample_count = 900,
                            .scale_ns = 61000}));
  cells.push_back(not_measured(
      run_cell({.workload = workload, .allocator = "async", .conf = "", .capacity = "1.05x"}),
      CellStatus::Crashed, "signal 11 (SIGSEGV) in pass 1"));
  cells.push_back(not_measured(
      run_cell({.workload = workload, .allocator = "rmm", .conf = "", .capacity = "1.05x"}),
      CellStatus::Skipped, "librmm not found"));
  cells.push_back(
      run_cell({.workload = workload, .allocator = "null", .conf = "", .capacity = "1.05x"}));
  cells.back().reserved_bytes_peak.reset();
  cells.back().device_allocate_count.reset();
}

inline std::vector<CellResult> run() {
  std::vector<CellResult> cells;
  add_failing_experiment(cells);
  const std::string hostile = "file:/data/a|b\n<script>alert(1)</script>`x`,\"y\".csv";
  cells.push_back(
      run_cell({.workload = hostile, .allocator = "caching", .conf = "", .capacity = "unlimited"}));
  cells.push_back(run_cell({.workload = hostile,
                            .allocator = "ca|ching\x1b[31m",
                            .conf = "a:1|b,<b>",
                            .capacity = "unlimited",
                            .oom_count = 3}));
  cells.back().requests = requests(2e6);
  cells.back().warnings = {"debug build", "a | b <i>"};
  return cells;
}

}  // namespace allocmark::sample

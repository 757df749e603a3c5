// Results with every field set to a value of its own, so that a field lost or swapped on the way
// shows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark::sample {

inline LatencySummary latency(std::uint64_t count, double scale_ns) {
  return {.count = count,
          .p50_ns = 1 * scale_ns,
          .p90_ns = 2 * scale_ns,
          .p99_ns = 3 * scale_ns,
          .p999_ns = 4 * scale_ns,
          .max_ns = 5 * scale_ns,
          .mean_ns = 1.25 * scale_ns};
}

inline OperationLatency operation(std::uint64_t count, double scale_ns) {
  return {.total = latency(count, scale_ns),
          .host = latency(count, scale_ns / 10),
          .driver = latency(count, scale_ns * 0.9)};
}

inline CellKey key() {
  return {.workload = "train:gpt2-124m,batch=8",
          .allocator = "caching",
          .conf = "max_split_size_mb:128",
          .device = "sim:h200",
          .capacity = "1.05x",
          .seed = 18446744073709551615u,
          .on_oom = "stop",
          .workload_definition = "train:gpt2-124m,batch=8,seq=1024",
          .workload_files = "0123456789abcdef",
          .conf_definition = "library:a.so,as:mine"};
}

inline PassSummary pass() {
  const LatencyBuckets allocate_buckets{{.index = 0, .count = 3}, {.index = 2751, .count = 357}};
  const LatencyBuckets deallocate_buckets(1, {.index = 640, .count = 240});
  return {.allocate_p50_ns = 1.5,
          .allocate_p99_ns = 2.5,
          .deallocate_p50_ns = 3.5,
          .wall_ns = 4.5,
          .allocate_buckets = allocate_buckets,
          .deallocate_buckets = deallocate_buckets,
          .allocator_ns_per_step = 123.25,
          .request_latency_ns_p99 = 2.25e6,
          .allocate_own_buckets = {{.index = 1, .count = 349}},
          .deallocate_own_buckets = {{.index = 2, .count = 231}},
          .oom_count = 4,
          .residue_bytes = 2097152,
          .allocator_scaled_ns_per_step = 130.5,
          .allocator_undisturbed_ns_per_step = 121.5,
          .allocator_undisturbed_ns = 2430.5,
          .allocator_scaled_ns = 2610.5,
          .step_ns_mean = 1.125e6,
          .begin_s = 0.75,
          .host_reference_ns = 301.5,
          .thread_cpu_ns = 5.5e6};
}

inline void fill_latencies(CellResult& cell) {
  cell.passes_to_come = 2;
  cell.host_reference_ns = 302.5, cell.host_scale = 0.875, cell.host_shift_ns = 2.25;
  cell.host_clock_ns = 17.5, cell.host_clock_step_ns = 10;
  cell.scaled = {.allocate_p50_ns = 910,
                 .allocate_p99_ns = 2900,
                 .deallocate_p50_ns = 455,
                 .deallocate_p99_ns = 1400};
  cell.allocate = operation(360, 1000);
  cell.deallocate = operation(240, 500);
  cell.repeat = {.allocate_p50 = {.low_ns = 880, .high_ns = 1140, .between_share = 0.13},
                 .allocate_p99 = {.low_ns = 2400, .high_ns = 3700, .between_share = 0.22},
                 .deallocate_p50 = {.low_ns = 440, .high_ns = 570, .between_share = 0.14},
                 .deallocate_p99 = {.low_ns = 1200, .high_ns = 1850, .between_share = 0.23}};
}

inline void fill_oom(CellResult& cell) {
  cell.failed_before_count = 9, cell.failed_again_count = 8;
  cell.oom_cause_counts = {21, 22, 23, 24, 25, 26, 27, 28, 29, 30};
  cell.oom_first = OomEvent{.event_index = 12,
                            .id = 9,
                            .size_bytes = 1048576,
                            .stream = 4294967295u,
                            .cause = OomCause::Fragmentation,
                            .free_largest_bytes = 524288,
                            .free_bytes = 600000,
                            .live_bytes = 700000,
                            .device_left_bytes = 800000,
                            .limit_bytes = 900000,
                            .free_by_stream = {{"stream0", 250000}, {"stream1", 350000}},
                            .free_other_processes_bytes = 100000};
}

inline void fill_program(CellResult& cell) {
  cell.step_ns_p50 = 1e6;
  cell.program_ns = 5.5e6;
  cell.program_ideal_ns = 5.25e6;
  cell.kernel_ns_total = 5000000;
  cell.assumed_kernel_ns = 20000, cell.idle_oom_count = 31;
  cell.host_ns_total = 6000000;
  cell.step_ns_mean = 1.5e6, cell.step_ideal_ns_mean = 1.25e6;
}

inline CellResult cell() {
  CellResult cell;
  cell.key = key();
  cell.status = CellStatus::OomStopped;
  cell.reason = "out of memory at event 12";
  cell.warnings = {"debug build", "governor powersave"};
  cell.trace_name = "gpt2";
  cell.trace_hash = "00000000000000aa";
  cell.placement_hash = "00000000000000bb";
  cell.event_count = 100, cell.allocate_count = 60, cell.deallocate_count = 40;
  cell.oom_count = 255, cell.skipped_free_count = 2, cell.trial_count = 7, cell.trial_oom_count = 5;
  fill_oom(cell);
  cell.capacity_bytes = 9007199254740993u;  // not representable as a double
  cell.requested_bytes_peak = 1000;
  cell.rounded_bytes_peak = 1012, cell.packed_bytes = 1018;
  cell.allocated_bytes_peak = 1024, cell.active_bytes_peak = 1536, cell.reserved_bytes_peak = 2048;
  cell.allocated_bytes_at_reserved_peak = 1020, cell.requested_bytes_at_reserved_peak = 990;
  cell.reserved_bytes_at_requested_peak = 2000;
  cell.growth = MemoryGrowth{.bytes_per_step = 512.5,
                             .bytes_per_step_low = 256.5,
                             .bytes_per_step_high = 768.5,
                             .step_count = 14};
  cell.device_bytes_peak = 4096;
  cell.device_allocate_count = 11, cell.device_free_count = 10;
  cell.retry_count = 1, cell.synchronize_all_count = 13;
  cell.counters = {{"num_ooms", 3}, {"drift", -4}};
  cell.pass_count = 6;
  fill_latencies(cell);
  cell.size_classes = {
      {.size_class = "<=512B", .allocate = operation(100, 300), .deallocate = operation(60, 200)}};
  cell.passes = {pass()};
  cell.requests = RequestLatency{.latency = latency(50, 1e6),
                                 .first_token = latency(51, 2e5),
                                 .ideal_latency = latency(52, 9e5),
                                 .ideal_first_token = latency(53, 1.5e5),
                                 .delay = latency(54, 1e5)};
  cell.allocator_ns_per_step = 123456.5;
  cell.allocator_scaled_ns_per_step = 133456.5;
  cell.allocator_undisturbed_ns_per_step = 121456.5;
  cell.modelled_driver_ns_total = 77.25;
  fill_program(cell);
  cell.harness_overhead_ns_p50 = 18.5;
  cell.wall_s = 0.03;
  cell.driver_calls = {{"cudaFree", 10}, {"cudaMalloc", 11}};
  cell.cold_ns = 34567.5;
  cell.residue_bytes = 1;
  cell.unordered_reuse_count = 2;
  cell.contents_oom_count = 17;
  cell.contents_placement_hash = "00000000000000cc";
  cell.host_taken_bytes = 18;
  cell.other_threads_ns_per_s = 19;
  cell.unimplemented_call_count = 3;
  return cell;
}

inline Environment environment() {
  return {.schema_version = kSchemaVersion,
          .allocmark_version = "0.1.0",
          .git_sha = "abc123",
          .build_type = "Release",
          .compiler = "GNU 12.2.0",
          .git_dirty = true,
          .argv = {"allocmark", "run", "--conf", "a:1,b:2"},
          .started_utc = "2026-01-02T03:04:05Z",
          .hostname_hash = "00000000000000cc",
          .os = "Debian GNU/Linux 12",
          .kernel = "6.1.0",
          .cpu_model = "Some CPU | 2 GHz",
          .cpu_governor = "performance",
          .cpu_count = 2,
          .memory_bytes = 8589934592,
          .device = "sim:h200",
          .gpu_name = "NVIDIA H200",
          .gpu_uuid_hash = "00000000000000ee",
          .driver_version = "13.0",
          .runtime_version = "13.0",
          .profile_name = "h200",
          .profile_hash = "00000000000000dd",
          .times_borrowed_from = "NVIDIA H200",
          .gpu_memory_bytes = 150000000000,
          .clock_resolution_ns = 1,
          .clock_overhead_ns = 19.5,
          .host_reference_ns = 290.5,
          .profile_host_reference_ns = 250.5,
          .profile_clock_overhead_ns = 20.5,
          .profile_host_reference_basis = "measured",
          .warnings = {"load average 3.1"}};
}

}  // namespace allocmark::sample

// What one cell of a run measured, as plain data; results/DEFINITIONS.md defines every field,
// results/schema.json is the published JSON Schema. Filled by harness/, written and read as JSON
// Lines by results/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/oom_causes.h"

namespace allocmark {

// The version of the result format (semver). MAJOR changes when results stop being comparable.
inline constexpr const char* kSchemaVersion = "1.16.0";

// What names a cell. Two runs' cells with the same key are the same experiment.
struct CellKey {
  std::string workload;   // as given: "train:gpt2-124m", "file:PATH", a scenario or recorded name
  std::string allocator;  // backend registry name
  std::string conf;       // config string, empty = unset
  std::string device;     // "sim:h200" or "cuda:0"
  std::string capacity;   // as given: "unlimited", "1.05x", "8GiB"
  std::uint64_t seed = 0;
  std::string on_oom =
      "skip";  // skip: the program goes on without the block; stop: the trace ends there

  // What the workload's name stood for where it named a scenario: "train:gpt2-124m,batch=8". Empty
  // where no scenario was named, and in results that were written before this was stored.
  std::string workload_definition = {};

  // What was in the trace files that the workload names ("file:PATH"): a hash of each file's bytes,
  // with commas between. Empty where it names none, and before schema 1.8.
  std::string workload_files = {};

  // Where `conf` is a name ("as:NAME"): the config string that it stands for. No part of the id, so
  // that two builds of one plugin under one name are the same cell of two runs.
  std::string conf_definition = {};

  // Stable id: 16 hex digits, the hash of the fields above but the last, so that an edited scenario
  // or trace file is another cell. What is empty of the two is left out of the hash.
  [[nodiscard]] std::string id() const;
  // The id without the two: the same for one scenario or file before and after an edit.
  [[nodiscard]] std::string id_by_name() const;
  // What to open: the definition where there is one, else the workload.
  [[nodiscard]] const std::string& workload_text() const {
    return workload_definition.empty() ? workload : workload_definition;
  }
  // What the allocator gets: the definition where there is one, else the config string.
  [[nodiscard]] const std::string& conf_text() const {
    return conf_definition.empty() ? conf : conf_definition;
  }
  friend bool operator==(const CellKey&, const CellKey&) = default;
};

enum class CellStatus : std::uint8_t {
  Ok,
  OomStopped,
  Skipped,
  Failed,
  Crashed,
  TimedOut,
  Interrupted
};
inline constexpr std::size_t kCellStatusCount = 7;

// How memory that is reserved and not live changes from step to step, over the second half of them.
struct MemoryGrowth {
  double bytes_per_step = 0;                               // median of the slopes between two steps
  double bytes_per_step_low = 0, bytes_per_step_high = 0;  // 95 % interval
  std::uint64_t step_count = 0;                            // that it rests on
};

struct OomEvent {
  std::uint64_t event_index = 0;  // 0-based position in the trace
  std::uint64_t id = 0;
  std::uint64_t size_bytes = 0;
  std::uint32_t stream = 0;
  OomCause cause = OomCause::Unknown;
  std::optional<std::uint64_t> free_largest_bytes;  // largest cached block it could have used
  // Sum of all cached blocks, of every stream, at that moment (reserved less active).
  std::optional<std::uint64_t> free_bytes = std::nullopt;
  // At that moment; nothing before schema 1.12. Requests of all processes, without this one.
  std::optional<std::uint64_t> live_bytes = std::nullopt;
  // What the card leaves to programs, and what a limit of the process allows it, where it has one.
  std::optional<std::uint64_t> device_left_bytes = std::nullopt, limit_bytes = std::nullopt;
  // Cached blocks by "stream<i>", where there are any; those of other processes in one sum.
  std::vector<std::pair<std::string, std::int64_t>> free_by_stream = {};
  std::optional<std::uint64_t> free_other_processes_bytes = std::nullopt;
};

// Calls of a backend in a fresh process whose host time is cold_ns.
inline constexpr std::uint64_t kColdCallCount = 256;

// Quantiles of one latency; ns. Empty distributions have count 0 and zeros.
struct LatencySummary {
  std::uint64_t count = 0;
  double p50_ns = 0, p90_ns = 0, p99_ns = 0, p999_ns = 0, max_ns = 0, mean_ns = 0;
  friend bool operator==(const LatencySummary&, const LatencySummary&) = default;
};

// One operation's latency: measured host time, modelled driver time (0 on a GPU, where host time
// contains it), and their sum per call, which is what a user waits for.
struct OperationLatency {
  LatencySummary total, host, driver;
};

struct SizeClassLatency {
  std::string size_class;  // "<=512B", ..., by harness/core/measure/size_class.h
  OperationLatency allocate, deallocate;
};

// How often which latency was seen: the log-linear buckets that have samples
// (results/latency_histogram.h), by ascending index.
struct LatencyBucket {
  std::uint32_t index = 0;
  std::uint64_t count = 0;  // above 0
  friend bool operator==(const LatencyBucket&, const LatencyBucket&) = default;
};
using LatencyBuckets = std::vector<LatencyBucket>;

// How long requests to a server took, on the clock of modelled kernels and the allocator's time
// (results/TIMES.md, "Requests").
struct RequestLatency {
  LatencySummary latency, first_token;  // from arrival to the answer, to its first token
  LatencySummary ideal_latency, ideal_first_token;  // with an allocator that costs nothing
  LatencySummary delay;                             // how much later than that each was answered
};

// The total latency with its host part scaled to the profile's host, or to this one without load
// (results/TIMES.md, "Host time on another host"); 0 where nothing was scaled.
struct ScaledLatency {
  double allocate_p50_ns = 0, allocate_p99_ns = 0, deallocate_p50_ns = 0, deallocate_p99_ns = 0;
};

struct PassSummary {  // one timed pass, for spread
  double allocate_p50_ns = 0, allocate_p99_ns = 0, deallocate_p50_ns = 0, wall_ns = 0;
  // Total latency. Empty without samples, and in results of schema 1.0, which did not store it.
  LatencyBuckets allocate_buckets = {}, deallocate_buckets = {};
  // As the cell's, of this pass alone; 0 without marks, without requests, and before schema 1.4.
  double allocator_ns_per_step = 0, request_latency_ns_p99 = 0;
  // Host part of the calls for which the driver had nothing to do: the allocator's own code. Empty
  // on a GPU, where host time contains the driver's, and before schema 1.5.
  LatencyBuckets allocate_own_buckets = {}, deallocate_own_buckets = {};
  std::optional<std::uint64_t> oom_count = std::nullopt, residue_bytes = std::nullopt;
  double allocator_scaled_ns_per_step = 0;  // as the cell's; 0 where nothing was scaled
  // Likewise with calls that were disturbed as they usually are, and of all calls of the pass; 0 on
  // a GPU and before schema 1.12.
  double allocator_undisturbed_ns_per_step = 0;
  double allocator_undisturbed_ns = 0, allocator_scaled_ns = 0;
  double step_ns_mean = 0;       // as the cell's; 0 before schema 1.13
  double begin_s = 0;            // since the cell's process began; 0 before schema 1.7
  double host_reference_ns = 0;  // of the processor just before the pass; 0: not measured
  double thread_cpu_ns = 0;      // of the thread that replays; 0 before schema 1.14
  // Not stored: what the calls took together by the histograms, of a summary that has none.
  double calls_ns_total = 0;
};

// Where a second measurement of one number is expected at 95 % (results/compare/repeat.h); all 0
// where it is not stated.
struct RepeatInterval {
  double low_ns = 0, high_ns = 0;
  double between_share = 0;  // what was taken for two runs' difference at 95 %, 0.13 is 13 %
};

struct CellRepeat {
  RepeatInterval allocate_p50, allocate_p99, deallocate_p50, deallocate_p99;
};

struct CellResult {
  CellKey key;
  CellStatus status = CellStatus::Ok;
  std::string reason;  // empty when Ok; else what, where, next step
  std::vector<std::string> warnings;

  std::string trace_name;
  std::string trace_hash;      // work hash: same trace, same hash, on every machine
  std::string placement_hash;  // hash of where every allocation landed, relative to the first
  std::uint64_t event_count = 0, allocate_count = 0, deallocate_count = 0;

  std::uint64_t oom_count = 0;           // failed requests of one pass
  std::uint64_t skipped_free_count = 0;  // frees whose allocation had failed
  // Requests that failed when the trace was recorded, after which the program went on, in no other
  // count; and how many of them fail here, too. 0 before schema 1.12.
  std::uint64_t failed_before_count = 0, failed_again_count = 0;
  std::uint64_t trial_count = 0, trial_oom_count = 0;  // passes, and passes with an OOM
  std::vector<std::uint64_t> oom_cause_counts = std::vector<std::uint64_t>(kOomCauseCount, 0);
  std::optional<OomEvent> oom_first;

  std::uint64_t capacity_bytes = 0;  // enforced; what the card leaves to programs where unlimited
  std::uint64_t requested_bytes_peak = 0;
  // With every request rounded up to 512 B, and what the best packing of them takes that was found;
  // nothing before schema 1.15.
  std::optional<std::uint64_t> rounded_bytes_peak = std::nullopt, packed_bytes = std::nullopt;
  std::optional<std::uint64_t> allocated_bytes_peak, active_bytes_peak, reserved_bytes_peak;
  std::optional<std::uint64_t> allocated_bytes_at_reserved_peak, requested_bytes_at_reserved_peak;
  std::optional<std::uint64_t> reserved_bytes_at_requested_peak = std::nullopt;
  std::optional<MemoryGrowth> growth = std::nullopt;  // where the trace marks enough steps
  // Taken from the device, as the device sees it (cudaMemGetInfo). Nothing where other cells share
  // the GPU, and before schema 1.9 theirs is in it.
  std::optional<std::uint64_t> device_bytes_peak = 0;
  std::optional<std::uint64_t> device_allocate_count, device_free_count, retry_count,
      synchronize_all_count;
  std::vector<std::pair<std::string, std::int64_t>> counters;  // the backend's own, after the trace
  // Calls that the backend made of the simulated driver in the checked pass, by function.
  std::vector<std::pair<std::string, std::int64_t>> driver_calls = {};

  std::uint32_t pass_count = 0;
  // Timed passes that were still to be made when this line was written: the run ended before them.
  std::uint64_t passes_to_come = 0;
  OperationLatency allocate, deallocate;
  // Host time of the reference beside the passes, their median, and for the scaled values what host
  // parts were multiplied by, and then what was added; 0 where not known.
  double host_reference_ns = 0, host_scale = 0, host_shift_ns = 0;
  double host_clock_ns = 0, host_clock_step_ns = 0;
  ScaledLatency scaled = {};
  CellRepeat repeat;
  std::vector<SizeClassLatency> size_classes;
  std::vector<PassSummary> passes;
  std::optional<RequestLatency> requests;  // where the trace tells of requests
  double allocator_ns_per_step = 0;  // allocator time between Mark events, median; 0 without marks
  double allocator_scaled_ns_per_step = 0;  // with scaled host parts; 0 where nothing was scaled
  // With calls that were disturbed as they usually are; 0 on a GPU and before schema 1.12.
  double allocator_undisturbed_ns_per_step = 0;
  double modelled_driver_ns_total = 0;  // one pass
  double step_ns_p50 = 0;               // between Mark events, device included; 0 without marks
  double program_ns = 0;  // one pass, until the device has done its work; 0 without passes
  // The same with an allocator that costs nothing; 0 where the trace has no kernels.
  double program_ideal_ns = 0;
  std::optional<std::uint64_t> kernel_ns_total;  // durations of the kernels, if the trace has any
  // Where the recording tells nothing of the device's work, by which the setting decides: the
  // kernel that was assumed after every request in the checked pass, and the failures without it,
  // as in the timed passes.
  std::optional<std::uint64_t> assumed_kernel_ns = std::nullopt, idle_oom_count = std::nullopt;
  std::optional<std::uint64_t> host_ns_total =
      std::nullopt;  // the program's own host time, likewise
  // Wall time of a step, mean over steps; the second with an allocator that costs nothing. 0 as
  // above.
  double step_ns_mean = 0, step_ideal_ns_mean = 0;
  double harness_overhead_ns_p50 = 0;  // the null backend in the same process
  double wall_s = 0;                   // the whole cell
  double cold_ns = 0;  // host time of the backend's first calls in the process (kColdCallCount)
  // Device bytes not returned after the backend was destroyed. Nothing where others share the GPU.
  std::optional<std::uint64_t> residue_bytes = 0;
  // Blocks handed memory that a former user may still use; nothing where nobody looked.
  std::optional<std::uint64_t> unordered_reuse_count = std::nullopt;
  // Of the pass that looks into blocks, which is work in the streams: oom_count and placement_hash
  // are of a pass without it. Nothing and empty where there was none.
  std::optional<std::uint64_t> contents_oom_count = std::nullopt;
  std::string contents_placement_hash = {};
  // What the backend took of the host; nothing before schema 1.14, and without timed passes.
  std::optional<std::uint64_t> host_taken_bytes = std::nullopt;  // resident, after the passes
  std::optional<std::uint64_t> other_threads_ns_per_s =
      std::nullopt;  // beside the one that replays
  // CUDA calls that failed because simcuda lacks them; nothing on a GPU.
  std::optional<std::uint64_t> unimplemented_call_count = std::nullopt;
  // Not stored: histograms and size classes were left out (results/cell_summary.h).
  bool is_summary = false;
};

// One object at the head of a run's file: what it ran on and how.
struct Environment {
  std::string schema_version = kSchemaVersion;
  std::string allocmark_version, git_sha, build_type, compiler;
  bool git_dirty = false;
  std::vector<std::string> argv;
  std::string started_utc;  // ISO 8601
  std::string hostname_hash, os, kernel, cpu_model, cpu_governor;
  std::uint64_t cpu_count = 0, memory_bytes = 0;
  std::string device;  // "sim:h200" or "cuda:0"
  std::string gpu_name, gpu_uuid_hash, driver_version, runtime_version, profile_name, profile_hash;
  std::string times_borrowed_from;  // the GPU whose times a simulated card has; empty: its own
  std::uint64_t gpu_memory_bytes = 0;
  double clock_resolution_ns = 0, clock_overhead_ns = 0;
  // How long the reference takes on this host with nothing of ours beside it, and on the host of
  // the device's profile; 0 where not known. The basis says how the latter came about.
  double host_reference_ns = 0, profile_host_reference_ns = 0, profile_clock_overhead_ns = 0;
  std::string profile_host_reference_basis = {};
  std::vector<std::string> warnings;  // debug build, governor, other load
};

}  // namespace allocmark

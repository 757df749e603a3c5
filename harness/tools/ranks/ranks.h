// The ranks of a parallel job side by side: each replays its own trace on its own device with its
// own allocator, and waits for the others at the trace's meetings
// (workloads/trace/request_marks.h). A specification flows in; what each rank held, whether it
// failed, and how long ranks waited for each other flow out. Runs in the calling process. It checks
// nothing, and its times are virtual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace allocmark {

struct RankSpec {
  std::uint32_t number = 0;  // in the job
  std::string workload;
  std::string capacity = "unlimited";  // of its device; 1.05x is 1.05 times this rank's peak
  friend bool operator==(const RankSpec&, const RankSpec&) = default;
};

struct RanksSpec {
  std::vector<RankSpec> ranks;  // on devices 0, 1, ...
  std::uint64_t seed = 1;
  std::string allocator, conf;
  std::string on_oom = "stop";  // of oom_policy_names(); stop: a rank ends with its first failure
  friend bool operator==(const RanksSpec&, const RanksSpec&) = default;
};

// A request that failed: the first one of a rank.
struct RankFailure {
  std::uint64_t event_index = 0;
  std::uint64_t asked_bytes = 0;
  std::uint64_t free_bytes = 0;      // of the device, as cudaMemGetInfo says it
  std::uint64_t live_bytes = 0;      // asked for and not given back
  std::uint64_t reserved_bytes = 0;  // taken from the device by the allocator
  std::string step;                  // the last mark of a step before it
  std::uint64_t time_ns = 0;
  friend bool operator==(const RankFailure&, const RankFailure&) = default;
};

// A meeting that never happened.
struct RankStall {
  std::string meeting;       // "collective:data0"
  std::uint64_t number = 0;  // of that name, from 1
  std::string step;
  std::uint64_t since_ns = 0;
  std::vector<std::uint32_t> missing;  // numbers of the ranks that did not come
  friend bool operator==(const RankStall&, const RankStall&) = default;
};

struct RankRow {
  std::uint32_t number = 0;
  std::string workload;
  std::uint64_t capacity_bytes = 0;  // free on its device when it begins, as cudaMemGetInfo says
  std::uint64_t requested_bytes_peak = 0;
  std::uint64_t device_bytes_peak = 0;  // taken from the device; without simcuda as of marks
  std::uint64_t request_count = 0;
  std::uint64_t oom_count = 0;
  std::uint64_t retry_count = 0;  // device calls repeated after giving cached memory back
  std::uint64_t meeting_count = 0;
  // Virtual time, from the start of the replay. Nothing without simcuda.
  std::optional<std::uint64_t> end_ns;
  std::optional<std::uint64_t> wait_ns;  // it waited for others
  // The job's meetings waited for it alone: the last before it was there so much earlier.
  std::optional<std::uint64_t> delay_ns;
  std::optional<RankFailure> failure;
  std::optional<RankStall> stall;
  std::vector<std::uint64_t> step_live_bytes;  // requested and not given back, at marks of steps
  friend bool operator==(const RankRow&, const RankRow&) = default;
};

// Throws UsageError (bad workload, config string or capacity, traces that do not fit together, an
// allocator that cannot do it) and EnvironmentError (too few devices).
[[nodiscard]] std::vector<RankRow> run_ranks(const RanksSpec& spec);

// A job's ranks from the words of a command line: one workload whose text says how many ranks there
// are (train with dp, tp, pp), or a workload for each rank (job.cc).

// As many as simulated devices (SIMCUDA_DEVICES).
inline constexpr std::size_t kRankCountMax = 16;

struct JobWords {
  std::vector<std::string> workloads;   // one for the job, or one for each rank
  std::vector<std::uint32_t> chosen{};  // of the job's ranks; empty: all
  std::string capacity = "unlimited";   // of every rank
  // "2=6GiB", "3=WORKLOAD": what one rank has instead.
  std::vector<std::string> rank_capacities{}, rank_workloads{};
};

// Throws UsageError.
[[nodiscard]] std::vector<RankSpec> ranks_of(const JobWords& words);

// What sets one rank apart from the others, in sentences: who failed first, who waits for it, whose
// memory is smallest, who takes most, whose live bytes grow, for whom the others wait
// (findings.cc).

enum class FindingKind : std::uint8_t { Failed, Waits, Smaller, Most, Grows, Late };

struct RankFinding {
  FindingKind kind = FindingKind::Failed;
  std::uint32_t rank = 0;  // its number in the job
  std::string text;        // one line
};

// "failed", "waits", "smaller", "most", "grows", "late".
[[nodiscard]] const char* finding_name(FindingKind kind);

// A difference is told from here on (README.md explains each).
inline constexpr double kMostRatioMin = 1.10;  // the most device memory over the least
inline constexpr std::uint64_t kGrowthBytesMin = std::uint64_t{1}
                                                 << 20;  // a step, more than others
inline constexpr double kLateShareMin = 0.05;  // of the job's time that all others wait for it

// In the order of the kinds. Ranks that wait for one that failed share a line.
[[nodiscard]] std::vector<RankFinding> findings_of(const std::vector<RankRow>& rows);

// run_ranks in a process of its own, which has the CUDA runtime and as many simulated devices as
// there are ranks. What the child throws is thrown here.
[[nodiscard]] std::vector<RankRow> run_ranks_in_child(const RanksSpec& spec,
                                                      const std::string& device);

// One JSON document: {"kind": "ranks", "ranks": [...], "findings": [...]}; README.md of this folder
// names the keys.
[[nodiscard]] std::string to_json(const std::vector<RankRow>& rows);
// A line per rank, then the findings.
[[nodiscard]] std::string render_ranks(const RanksSpec& spec, const std::vector<RankRow>& rows);

}  // namespace allocmark

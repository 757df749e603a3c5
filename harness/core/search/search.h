// The search over settings, in the calling process and on its simulated CUDA device: passes over a
// trace without a clock, at one capacity and at the least that a setting needs. A specification
// flows in; facts about every setting flow out. It counts; it times nothing.
//
// A pass at capacity c uses at most P of it, and the least request of device memory that was
// refused would have brought it to F. With any capacity from P on and below F the same happens,
// because an allocator learns of the capacity only by refusals. So each pass settles an interval,
// and the least capacity is found exactly: the least from which every larger one, up to the whole
// device, serves all requests. Where fewer passes are allowed than that takes, what remains
// unsettled is said. In traces of several streams the order of events may shift with the capacity
// by modelled time; there an interval is what the pass saw, and no proof. An allocator whose own
// limit is a share of the free memory learns of the capacity from the start: there a pass settles
// its own capacity alone, and the least one is what a bisection finds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "workloads/trace/source.h"

namespace allocmark {

struct SearchSpec {
  std::string workload = {};
  std::uint64_t seed = 1;
  std::string capacity = {};            // as on the command line; empty: no pass at one capacity
  std::string allocator = "caching";    // of the registry
  std::vector<std::string> confs = {};  // of that allocator; empty text: unset
  bool finds_least = true;
  // Passes that settle capacities above the least one; enough for all where 0.
  std::uint32_t settle_count_max = 0;
  // Of the trace, where the process is handed it (harness/job/handed_file.h): `workload` is then
  // its name alone.
  std::optional<TraceHeader> handed = std::nullopt;
  friend bool operator==(const SearchSpec&, const SearchSpec&) = default;
};

struct SettingFacts {
  std::string conf = {};
  std::uint64_t oom_count = 0;  // at the capacity
  // There on an idle device, where work in flight was assumed (assumed_work.h).
  std::optional<std::uint64_t> idle_oom_count = std::nullopt;
  std::uint64_t peak_bytes = 0;   // of device memory, there
  double driver_ns_per_step = 0;  // there: modelled time in CUDA calls, median over the steps
  double calls_per_step = 0;      // of the allocator there, likewise
  double driver_ns = 0;           // of the whole pass
  std::uint32_t pass_count = 0;   // that were made for it
  // Least capacity that serves every request; nothing where the whole device does not.
  std::optional<std::uint64_t> least_bytes = std::nullopt;
  std::uint64_t unsettled_bytes = 0;  // of capacities above the least one
  // A capacity below the least one that serves as well, though a larger one fails.
  std::optional<std::uint64_t> serves_below_bytes = std::nullopt;
  // Why there are no numbers: the setting cannot run with this job, as where address space ends;
  // then all requests count as failed. Empty: there are.
  std::string failure = {};
  friend bool operator==(const SettingFacts&, const SettingFacts&) = default;
};

struct SearchResult {
  std::uint64_t event_count = 0, allocate_count = 0, step_count = 0, stream_count = 0;
  std::uint64_t needed_bytes = 0;    // largest sum of live requests
  std::uint64_t usable_bytes = 0;    // what the device leaves to a program
  std::uint64_t capacity_bytes = 0;  // of the passes at one capacity
  std::vector<SettingFacts> settings = {};
  std::vector<std::string> notes = {};  // what the file of a recording does not say
  std::uint64_t trace_hash = 0;
  // As the job says of itself (TraceHeader).
  std::string pytorch = {};
  std::vector<ForbiddenKey> forbids = {};
  friend bool operator==(const SearchResult&, const SearchResult&) = default;
};

// Calls `on_setting` after each setting, with the facts of that one alone. Throws UsageError for a
// workload or capacity that cannot be searched, EnvironmentError on CUDA errors and where the
// device is not simulated.
[[nodiscard]] SearchResult search_settings(
    const SearchSpec& spec,
    const std::function<void(const SearchResult&)>& on_setting = [](const SearchResult&) {});

}  // namespace allocmark

// The estimate itself, in a process that has simcuda in front: the job's events are read once for
// what is live, and replayed on PyTorch's allocator for what is reserved. A specification flows in,
// facts flow out; nothing is timed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/tools/estimate/account.h"
#include "harness/tools/estimate/captures.h"
#include "workloads/trace/source.h"

namespace allocmark {

struct EstimateSpec {
  std::string workload = {};  // of a generator with "marks=phases", where it has that key
  bool marks_forward = false;
  std::uint64_t seed = 1;
  std::string allocator = "caching";      // of the registry
  std::vector<std::string> confs = {};    // of that allocator; empty text: unset
  std::vector<std::uint64_t> rooms = {};  // what cards leave to a program, bytes
  LogitsSizes logits = {};
};

// A setting in so much memory. Rooms in which the answer is known without a replay are left out:
// those below what is live, and those that hold what is reserved.
struct RoomFacts {
  std::uint64_t room_bytes = 0;
  std::uint64_t oom_count = 0;
};

struct SettingEstimate {
  std::string conf = {};
  std::uint64_t reserved_bytes = 0;                   // largest, where memory is plenty
  std::optional<std::uint64_t> allocated_bytes = {};  // largest, where the allocator counts it
  std::vector<std::uint64_t> reserved_by_phase = {};
  std::vector<RoomFacts> rooms = {};
  CaptureFacts captures = {};
  std::string failure = {};  // why the setting cannot run at all
};

struct JobEstimate {
  std::uint64_t live_bytes = 0;  // largest sum of requests
  std::uint64_t peak_phase = 0;  // index into phases
  std::vector<PhasePeak> phases = {};
  std::vector<SettingEstimate> settings = {};
  std::uint64_t request_count = 0;
  std::uint64_t managed_bytes = 0;      // beside PyTorch's allocator, on card or host
  std::string pytorch = {};             // as the recording says
  std::vector<std::string> notes = {};  // what the file of a recording does not say
};

// Throws UsageError for a workload that cannot be opened, EnvironmentError where the process has no
// simcuda.
[[nodiscard]] JobEstimate estimate_job(const EstimateSpec& spec);

// The same in a process of its own with that device.
[[nodiscard]] JobEstimate estimate_in_child(const EstimateSpec& spec, const std::string& device);

}  // namespace allocmark

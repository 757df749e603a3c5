// What a difference between two traces does to an allocator: both replayed through `caching` on the
// simulated H200, one config string after the other. Checks; times nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/job/interrupt.h"

namespace allocmark {

// One trace under one config string. Absent where a request failed: the trace then needs more than
// the device has.
struct ReplayNumbers {
  std::optional<std::uint64_t> reserved_bytes_peak;
  std::optional<double> fragmentation_share;  // results/DEFINITIONS.md, fragmentation_share_pytorch
};

struct ReplayPair {
  std::string conf;  // empty = unset
  ReplayNumbers reference, generated;
};

// Two traces to replay, as workloads ("file:PATH" for a trace of one's own).
struct ReplayRequest {
  std::string reference, generated;
  std::uint64_t seed = 1;
};

// For every request a pair per config string, in the order given. Throws CellsError where a
// replay crashes or is interrupted.
[[nodiscard]] std::vector<std::vector<ReplayPair>> replay_pairs(
    const std::vector<ReplayRequest>& requests, const std::vector<std::string>& confs);

}  // namespace allocmark

// A job's ranks from the words of a command line: one workload whose text says how many ranks there
// are (train with dp, tp, pp), or a workload for each rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/tools/ranks/ranks.h"

namespace allocmark {

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

}  // namespace allocmark

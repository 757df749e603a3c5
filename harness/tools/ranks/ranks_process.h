// The same in a process of its own, which has the CUDA runtime and as many simulated devices as
// there are ranks, and what people and programs read of them.
#pragma once

#include <string>
#include <vector>

#include "harness/tools/ranks/ranks.h"

namespace allocmark {

// One JSON document: {"kind": "ranks", "ranks": [...], "findings": [...]}; README.md of this folder
// names the keys.
[[nodiscard]] std::string to_json(const std::vector<RankRow>& rows);

// Starts this program again, with simcuda in front where the device is simulated. What the child
// throws is thrown here.
[[nodiscard]] std::vector<RankRow> run_ranks_in_child(const RanksSpec& spec,
                                                      const std::string& device);

// A line per rank, then the findings.
[[nodiscard]] std::string render_ranks(const RanksSpec& spec, const std::vector<RankRow>& rows);

}  // namespace allocmark

// Parts of an answer: what settings cost, what they do with memory where nothing failed, and what
// failed while the workload was recorded. Chosen cells flow in; sentences flow out.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "results/answer/answer.h"

namespace allocmark {

// "0.80 ms per step (+0.70 ms against unset), dear in 1 of 3 passes (up to 12.0 ms)".
[[nodiscard]] std::string short_cost(const RankedCell& ranked, const Answer& answer);

// " One pass has no range.": why a difference that the sentence names has none, or, without a
// named cell, one that it denies. Empty where there is a range.
[[nodiscard]] std::string missing_range(const Answer& answer, const RankedCell* named);

// Between what a step gets longer, where the device's work is not known and costs are times per
// step; empty elsewhere.
[[nodiscard]] std::string step_bounds(const CellGroup& group, const Answer& answer);

// "caching a:1 reserves 139 GiB at its peak for 22.0 GiB requested; unset reserves 24.0 GiB."
[[nodiscard]] std::string waste_line(const Answer& answer, const TextStyle& style);

// "Headroom: caching unset reserves 20.3 GiB of 24.0 GiB; 3.70 GiB are left." Nothing where the
// baseline failed or its reserved peak is not known.
[[nodiscard]] std::optional<std::string> headroom_line(const Answer& answer,
                                                       const TextStyle& style);

// Whether reserved less live memory grows: its whole interval lies above 1 MiB a step.
[[nodiscard]] bool grows(const CellResult& cell);

// "Reserved less live memory over steps: caching unset grows 12.0 MiB a step (9.0 to 14.0); ...".
// Nothing where no cell has enough steps.
[[nodiscard]] std::optional<std::string> growth_line(const Answer& answer, const TextStyle& style);

// " Private pools of caching unset hold 1.64 GiB at most, and 1.64 GiB are stranded in 51 of them
// (64.0 MiB in pool 3); ...". Empty where no cell has private pools.
[[nodiscard]] std::string pool_words(std::span<const CellResult* const> cells,
                                     const TextStyle& style);

// " While it was recorded, 1 request failed."; empty where none of these cells' workloads is a
// recording in which requests failed.
[[nodiscard]] std::string recorded_failures(std::span<const CellResult* const> cells);

}  // namespace allocmark

// Whether the numbers of a stored result can belong together: sums, orders, and quantiles computed
// again from the stored histograms. Flows in: a cell; flows out: what contradicts what, for people.
// Neither times nor checks allocators; results/BUNDLES.md lists what is looked at.
#pragma once

#include <string>
#include <vector>

#include "results/schema.h"

namespace allocmark {

// One sentence per contradiction; empty where there is none, and for cells without numbers that say
// why.
[[nodiscard]] std::vector<std::string> contradictions(const CellResult& cell);

// What cannot have happened, though the numbers fit each other: more live than the capacity and no
// failed request, less taken from the device than reserved, parts that are not the whole.
[[nodiscard]] std::vector<std::string> impossibilities(const CellResult& cell);

// Passes below which the spread between passes cannot be told.
inline constexpr std::uint32_t kPublishedPassCountMin = 3;

// What a published cell must not lack: one sentence where it has too few passes, and per operation
// whose P50 rests on too few samples. It says how many passes would do.
[[nodiscard]] std::vector<std::string> missing_samples(
    const CellResult& cell, std::uint32_t pass_count_min = kPublishedPassCountMin);

// P99s with too few samples, likewise. Tables mark them, so they are no claim.
[[nodiscard]] std::vector<std::string> marked_quantiles(const CellResult& cell);

// Passes further from their median than this count as differing; more than a quarter of a cell's
// passes must. One pass of three is more than a quarter, four of sixteen are not.
inline constexpr double kPassP50ReachMax = 0.10;
inline constexpr double kPassP99ReachMax = 0.25;
inline constexpr double kDifferingPassShareMax = 0.25;

// "allocate P50: 2 of 6 passes lie more than 10 % from their median"; empty where the cell's passes
// agree, and for fewer than kPublishedPassCountMin of them.
[[nodiscard]] std::vector<std::string> differing_passes(const CellResult& cell);

}  // namespace allocmark

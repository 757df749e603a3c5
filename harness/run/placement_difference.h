// Which request two sides of an interleaved cell first place differently. Both sides are run once
// more, without a clock, and what their allocators answered is held against each other. A plan
// flows in, a line of text per cell flows out. Times nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/run/interrupt.h"
#include "results/compare/interleaved.h"

namespace allocmark {

struct PlacementDifference {
  std::uint64_t allocation_index = 0;  // 0-based, among the trace's allocations
  std::string base = {}, now = {};     // "segment 3 + 0x200", "out of memory", "no such request"
};

// The first answer that differs between two files of placements (placement_recorder.h).
[[nodiscard]] std::optional<PlacementDifference> first_difference(std::string_view base,
                                                                  std::string_view now);

// For each of the plan's cells in `cells`, given by its index: what differs first. A cell is left
// out where its processes gave no answers or did not differ again, and where the sides are
// different allocators, which place nothing alike. Writes below `folder` and removes what it wrote.
// `interrupt` may be null.
[[nodiscard]] std::map<std::size_t, std::string> first_differences(
    const InterleavedPlan& plan, const std::vector<std::size_t>& cells, const std::string& folder,
    std::uint64_t timeout_s, const InterruptGuard* interrupt);

}  // namespace allocmark

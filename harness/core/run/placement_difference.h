// Which request two sides of an interleaved cell first place differently. The cell's first two
// processes write down what their allocators answer in the checked pass, before anything is timed,
// and the two files are held against each other. A plan flows in, a line of text per cell flows
// out. Times nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "results/compare/interleaved.h"

namespace allocmark {

struct PlacementDifference {
  std::uint64_t allocation_index = 0;  // 0-based, among the trace's allocations
  std::string base = {}, now = {};     // "segment 3 + 0x200", "out of memory", "no such request"
};

// The first answer that differs between two files of placements (placement_recorder.h).
[[nodiscard]] std::optional<PlacementDifference> first_difference(std::string_view base,
                                                                  std::string_view now);

class PlacementDifferences {
 public:
  // Makes a folder below `folder` for what the processes write, which goes with this. `plan`
  // outlives it.
  PlacementDifferences(const InterleavedPlan& plan, const std::string& folder);
  ~PlacementDifferences();
  PlacementDifferences(const PlacementDifferences&) = delete;
  PlacementDifferences& operator=(const PlacementDifferences&) = delete;

  // Where the process of the cell's side writes. Empty where the sides are different allocators,
  // which place nothing alike.
  [[nodiscard]] std::string path(std::size_t cell_index, std::size_t side) const;
  // That process has ended, `measured` or not. The last of the two has its files compared and
  // removed.
  void note_ended(std::size_t cell_index, bool measured);

  // What differs first in each cell, by its index; cells without a difference are left out. Looks
  // the requests up in their workloads.
  [[nodiscard]] std::map<std::size_t, std::string> texts() const;

 private:
  const InterleavedPlan& plan_;
  std::string folder_;
  std::map<std::size_t, std::size_t> measured_counts_;
  std::map<std::size_t, PlacementDifference> found_;
};

}  // namespace allocmark

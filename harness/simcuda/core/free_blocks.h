// Free blocks of an address space: by address, for merging, and by (length, time of insertion), for
// best fit. The small heap and every list of a pool are one of these. In: free ranges. Out: the
// block to use.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "harness/simcuda/core/units.h"

namespace simcuda {

struct FreeBlock {
  Range range;
  std::uint64_t marker =
      0;  // position of the latest free in it; the greatest one where blocks merged
  std::uint64_t order = 0;  // time of insertion
};

class FreeBlocks {
 public:
  // Inserts a range and merges it with the blocks that touch it, but only within `limits`. Returns
  // the merged block.
  FreeBlock insert(Range range, std::uint64_t marker, Range limits = {0, ~std::uint64_t{0}});
  // The shortest block of at least `size_bytes`; of equal lengths the one inserted first.
  [[nodiscard]] std::optional<FreeBlock> best_fit(std::uint64_t size_bytes) const;
  // The same block where its marker is at most `marker_max`, else of the long enough blocks with
  // such a marker the one with the least: not the shortest (an H200's choice, see the room's
  // README).
  [[nodiscard]] std::optional<FreeBlock> best_fit_until(std::uint64_t size_bytes,
                                                        std::uint64_t marker_max) const;
  // Of the blocks whose marker is at most `marker_max` the one with the greatest marker.
  [[nodiscard]] std::optional<FreeBlock> latest_until(std::uint64_t marker_max) const;
  // The block that ends at, begins at, or holds `address`.
  [[nodiscard]] std::optional<FreeBlock> ending_at(std::uint64_t address) const;
  [[nodiscard]] std::optional<FreeBlock> starting_at(std::uint64_t address) const;
  [[nodiscard]] std::optional<FreeBlock> holding(std::uint64_t address) const;
  void remove(const FreeBlock& block);
  // Takes `size_bytes` off the low end of `block`; the rest counts as newly inserted, with the same
  // marker.
  // Returns the rest; empty where nothing is left.
  FreeBlock cut_low_end(const FreeBlock& block, std::uint64_t size_bytes);

  [[nodiscard]] bool empty() const { return by_address_.empty(); }
  [[nodiscard]] std::size_t count() const { return by_address_.size(); }

 private:
  struct Node {
    std::uint64_t hi = 0;
    std::uint64_t marker = 0;
    std::uint64_t order = 0;
  };
  using LengthKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;  // length, order, lo
  FreeBlock place(Range range, std::uint64_t marker);
  [[nodiscard]] FreeBlock block_of(std::map<std::uint64_t, Node>::const_iterator at) const;

  std::map<std::uint64_t, Node> by_address_;
  std::set<LengthKey> by_length_;
  std::map<std::uint64_t, std::uint64_t> by_marker_;  // marker (never 0, never twice) -> lo
  std::uint64_t next_order_ = 1;
};

}  // namespace simcuda

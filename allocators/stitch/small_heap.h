// Small blocks of the vmm_stitch backend: slabs of one chunk each, cut into pieces by best fit and
// joined again when freed. One heap per stream, so that reuse needs no waiting. Places in order
// (addresses.h) and sizes flow in and out; no memory is touched. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace allocmark::stitch {

class SmallHeap {
 public:
  // All sizes are multiples of this.
  static constexpr std::uint64_t kGrainBytes = 512;

  // The smallest free piece that is large enough, cut to size; nothing where there is none.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint64_t size_bytes);
  // The place of a piece that was taken. Gives the slab's place where all of it is free now:
  // the heap has forgotten it then.
  [[nodiscard]] std::optional<std::uint64_t> give(std::uint64_t order);
  void add_slab(std::uint64_t order, std::uint64_t size_bytes);

  [[nodiscard]] std::uint64_t free_bytes() const { return free_bytes_; }
  [[nodiscard]] std::uint64_t free_bytes_largest() const {
    return free_.empty() ? 0 : free_.rbegin()->first;
  }

 private:
  struct Piece {
    std::uint64_t size_bytes = 0;
    std::uint64_t slab_order = 0;
    bool free = false;
  };
  using Pieces = std::map<std::uint64_t, Piece>;

  void set_free(Pieces::iterator at, bool free);
  // Joins a free piece with the one after it, where that is free and of the same slab.
  void join_next(Pieces::iterator at);

  Pieces pieces_;                                           // by order
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_;  // (size, order)
  std::map<std::uint64_t, std::uint64_t> slab_bytes_;       // by order
  std::uint64_t free_bytes_ = 0;
};

}  // namespace allocmark::stitch

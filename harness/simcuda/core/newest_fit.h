// Finds the last slot whose value is at least as large as asked, in logarithmic time: a tree of
// maxima over an array.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace simcuda {

class NewestFit {
 public:
  // All values become 0. `slot_count` > 0.
  void reset(std::size_t slot_count);
  void set(std::size_t slot, std::uint64_t value);
  // The greatest slot whose value is at least `value_min` (> 0).
  [[nodiscard]] std::optional<std::size_t> last_at_least(std::uint64_t value_min) const;
  [[nodiscard]] std::size_t slot_count() const { return leaf_count_; }

 private:
  std::size_t leaf_count_ = 0;         // a power of two
  std::vector<std::uint64_t> maxima_;  // heap order, root at 1, leaves from leaf_count_
};

}  // namespace simcuda

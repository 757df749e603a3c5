// Whether memory grows from step to step. One figure for each step flows in; the slope over the
// second half of the steps flows out. The first half is left out: caches fill there.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "results/schema.h"

namespace allocmark {

class Growth {
 public:
  // Fewer steps have no second half worth a slope.
  static constexpr std::size_t kStepCountMin = 16;

  // What is reserved and not live at the end of a step, in bytes.
  void add(double bytes) { values_.push_back(bytes); }

  [[nodiscard]] std::optional<MemoryGrowth> result() const;

 private:
  std::vector<double> values_;
};

}  // namespace allocmark

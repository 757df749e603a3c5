// The time of single calls: the host's on a GPU, the modelled one on simcuda, whose own time says
// nothing. One per thread. This file times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/measure/clock.h"
#include "harness/replay/simcu_api.h"

namespace allocmark::qualify {

// Samples in ns, and their quantiles.
class CallSamples {
 public:
  void add(double ns) { ns_.push_back(ns); }
  [[nodiscard]] std::size_t count() const { return ns_.size(); }
  // The smallest sample that is not below a share `q` of them; 0 where there are none.
  [[nodiscard]] double quantile(double q) {
    if (ns_.empty()) return 0;
    const auto rank = static_cast<std::size_t>(q * static_cast<double>(ns_.size() - 1) + 0.5);
    const auto at = ns_.begin() + static_cast<std::ptrdiff_t>(std::min(rank, ns_.size() - 1));
    std::nth_element(ns_.begin(), at, ns_.end());
    return *at;
  }

 private:
  std::vector<double> ns_;
};

class CallClock {
 public:
  explicit CallClock(const SimcuApi& simcu)
      : simulated_(simcu.present ? simcu.thread_clock() : nullptr) {
    if (simulated_ != nullptr) return;
    clock_.finish_calibration();
    pair_cost_ns_ = clock_.pair_cost_ns();
  }

  // Calls it and gives its time in ns, the clock's own taken off.
  template <typename Call>
  [[nodiscard]] double time(Call&& call) const {
    if (simulated_ != nullptr) {
      const std::uint64_t begin_ns = simulated_->modelled_ns;
      call();
      return static_cast<double>(simulated_->modelled_ns - begin_ns);
    }
    const std::uint64_t begin_ticks = clock_.now_ticks();
    call();
    const std::uint64_t ticks = clock_.now_ticks() - begin_ticks;
    return std::max(0.0, static_cast<double>(ticks) * clock_.scale().ns_per_tick() - pair_cost_ns_);
  }

 private:
  const SimcuThreadClock* simulated_;
  TickClock clock_;
  double pair_cost_ns_ = 0;
};

}  // namespace allocmark::qualify

// The time of single calls: the host's on a GPU, the modelled one on simcuda, whose own time says
// nothing. One per thread. This file times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/replay/simcu_api.h"

namespace allocmark::qualify {

// Samples in ns, and their quantiles. Takes the same memory however many there are: of many samples
// every second, then every fourth and so on is kept.
class CallSamples {
 public:
  static constexpr std::size_t kKeptCountMax = 8192, kDriftCountMin = 1024;

  void add(double ns) {
    if (count_++ % stride_ != 0) return;
    kept_.push_back(ns);
    if (kept_.size() < kKeptCountMax) return;
    for (std::size_t i = 0; 2 * i < kept_.size(); ++i) kept_[i] = kept_[2 * i];
    kept_.resize(kept_.size() / 2);
    stride_ *= 2;
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  // The smallest sample that is not below a share `q` of them; 0 where there are none.
  [[nodiscard]] double quantile(double q) const { return quantile_of(kept_, q); }
  // Median of the last quarter of the samples / of the first; nothing where they are few. Fewer
  // than a quarter are a moment of the host: of a healthy machine the last 256 took 0.7 to 1.4
  // times as long as the first (four H200s, 2026-11-27).
  [[nodiscard]] std::optional<double> drift() const {
    const auto quarter = static_cast<std::ptrdiff_t>(kept_.size() / 4);
    const double begin_ns = quantile_of({kept_.begin(), kept_.begin() + quarter}, 0.5);
    if (count_ < kDriftCountMin || begin_ns <= 0) return std::nullopt;
    return quantile_of({kept_.end() - quarter, kept_.end()}, 0.5) / begin_ns;
  }

 private:
  static double quantile_of(std::vector<double> samples, double q) {
    if (samples.empty()) return 0;
    const auto rank = static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5);
    const auto at =
        samples.begin() + static_cast<std::ptrdiff_t>(std::min(rank, samples.size() - 1));
    std::nth_element(samples.begin(), at, samples.end());
    return *at;
  }

  std::vector<double> kept_;  // in the order of time
  std::size_t count_ = 0, stride_ = 1;
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

// How long a program's steps take with an allocator, and the whole program until the device has
// done its work: marks of a timed pass flow in, times flow out. The host's time on a GPU; on
// simcuda virtual time, in which driver calls, launches and waits pass, but not the code of the
// allocator. This file times.
#pragma once

#include <cstdint>
#include <vector>

#include "base/median.h"
#include "harness/core/measure/clock.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

class StepClock {
 public:
  // Steps beyond step_count_max in a pass are left out. `simcu` is null on a GPU.
  StepClock(const TickClock& clock, const SimcuThreadClock* simcu, std::uint64_t step_count_max)
      : clock_(clock), simcu_(simcu), step_count_max_(step_count_max) {
    steps_ns_.reserve(step_count_max);
  }

  void begin_pass() {
    elapsed_ns_ = 0;
    step_begin_ns_ = 0;
    step_count_ = 0;
    in_step_ = false;
  }
  // Time passes between these two only: reading the trace is none of the program's.
  void resume() { resumed_at_ns_ = raw_ns(); }
  void pause() { elapsed_ns_ += raw_ns() - resumed_at_ns_; }

  // A step begins; the one before it ends.
  void mark() {
    const std::uint64_t now_ns = elapsed_ns_ + raw_ns() - resumed_at_ns_;
    if (in_step_ && step_count_ < step_count_max_) {
      steps_ns_.push_back(now_ns - step_begin_ns_);
      ++step_count_;
    }
    in_step_ = true;
    step_begin_ns_ = now_ns;
  }
  // All of the device's work is done, and the clock paused.
  void end_pass() {
    if (in_step_) steps_ns_.push_back(elapsed_ns_ - step_begin_ns_);
    programs_ns_.push_back(elapsed_ns_);
  }

  // Nearest-rank medians over all passes, in ns; 0 where there are none.
  [[nodiscard]] double step_ns_median() const { return static_cast<double>(median_low(steps_ns_)); }
  [[nodiscard]] double program_ns_median() const {
    return static_cast<double>(median_low(programs_ns_));
  }

 private:
  [[nodiscard]] std::uint64_t raw_ns() const {
    return simcu_ != nullptr ? simcu_->modelled_ns
                             : clock_.scale().picoseconds(clock_.now_ticks()) / 1000;
  }

  const TickClock& clock_;
  const SimcuThreadClock* simcu_;
  std::uint64_t step_count_max_;
  std::vector<std::uint64_t> steps_ns_, programs_ns_;
  std::uint64_t elapsed_ns_ = 0, resumed_at_ns_ = 0, step_begin_ns_ = 0, step_count_ = 0;
  bool in_step_ = false;
};

}  // namespace allocmark

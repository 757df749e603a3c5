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
  // Medians leave out steps beyond step_count_max in a pass. `simcu` is null on a GPU.
  // `preamble_label`: a part that begins with that mark comes before the program's first step.
  StepClock(const TickClock& clock, const SimcuThreadClock* simcu, std::uint64_t step_count_max,
            std::uint32_t preamble_label)
      : clock_(clock),
        simcu_(simcu),
        step_count_max_(step_count_max),
        preamble_label_(preamble_label) {
    steps_ns_.reserve(step_count_max);
  }

  void begin_pass() {
    elapsed_ns_ = 0;
    step_begin_ns_ = 0;
    step_count_ = 0;
    in_step_ = false;
    real_steps_ = {};
  }
  // Time passes between these two only: reading the trace is none of the program's.
  void resume() { resumed_at_ns_ = raw_ns(); }
  void pause() { elapsed_ns_ += raw_ns() - resumed_at_ns_; }

  // A step begins with that mark after so many requests of the pass; the one before it ends.
  void mark(std::uint32_t label, std::uint64_t request_count) {
    const std::uint64_t now_ns = elapsed_ns_ + raw_ns() - resumed_at_ns_;
    if (in_step_ && step_count_ < step_count_max_) {
      steps_ns_.push_back(now_ns - step_begin_ns_);
      ++step_count_;
    }
    end_step(now_ns, request_count);
    label_ = label;
    in_step_ = true;
    step_begin_ns_ = now_ns;
  }
  // All of the device's work is done, and the clock paused.
  void end_pass(std::uint64_t request_count) {
    if (in_step_) steps_ns_.push_back(elapsed_ns_ - step_begin_ns_);
    end_step(elapsed_ns_, request_count);
    programs_ns_.push_back(elapsed_ns_);
    means_ns_.push_back(real_steps_.count == 0 ? 0 : real_steps_.ns / real_steps_.count);
  }
  // Mean time of the last pass's steps: of the parts in which something was asked, without the
  // preamble; 0 where there are none.
  [[nodiscard]] std::uint64_t pass_step_ns_mean() const {
    return means_ns_.empty() ? 0 : means_ns_.back();
  }

  // Nearest-rank medians over all passes, in ns; 0 where there are none.
  [[nodiscard]] double step_ns_median() const { return static_cast<double>(median_low(steps_ns_)); }
  // Of the passes' means.
  [[nodiscard]] double step_ns_mean() const { return static_cast<double>(median_low(means_ns_)); }
  [[nodiscard]] double program_ns_median() const {
    return static_cast<double>(median_low(programs_ns_));
  }

 private:
  void end_step(std::uint64_t now_ns, std::uint64_t request_count) {
    if (in_step_ && label_ != preamble_label_ && request_count > request_count_) {
      real_steps_.ns += now_ns - step_begin_ns_;
      ++real_steps_.count;
    }
    request_count_ = request_count;
  }
  [[nodiscard]] std::uint64_t raw_ns() const {
    return simcu_ != nullptr ? simcu_->modelled_ns
                             : clock_.scale().picoseconds(clock_.now_ticks()) / 1000;
  }

  const TickClock& clock_;
  const SimcuThreadClock* simcu_;
  std::uint64_t step_count_max_;
  std::uint32_t preamble_label_;
  std::vector<std::uint64_t> steps_ns_, programs_ns_, means_ns_;  // the last two by pass
  struct {
    std::uint64_t ns = 0, count = 0;
  } real_steps_;                     // of this pass
  std::uint64_t request_count_ = 0;  // before the step
  std::uint32_t label_ = 0;
  std::uint64_t elapsed_ns_ = 0, resumed_at_ns_ = 0, step_begin_ns_ = 0, step_count_ = 0;
  bool in_step_ = false;
};

}  // namespace allocmark

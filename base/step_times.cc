// See step_times.h.
#include "base/step_times.h"

#include "base/median.h"

namespace allocmark {

void StepTimes::reserve() {
  set_up_.reserve(1);
  first_.reserve(1);
  steady_.reserve(step_count_max_);
}

void StepTimes::clear() {
  count_ = 0;
  set_up_.clear();
  first_.clear();
  steady_.clear();
}

void StepTimes::merge(const StepTimes& other) {
  set_up_.insert(set_up_.end(), other.set_up_.begin(), other.set_up_.end());
  first_.insert(first_.end(), other.first_.begin(), other.first_.end());
  steady_.insert(steady_.end(), other.steady_.begin(), other.steady_.end());
}

std::uint64_t StepTimes::median() const {
  if (!steady_.empty()) return median_low(steady_);
  return median_low(first_.empty() ? set_up_ : first_);
}

}  // namespace allocmark

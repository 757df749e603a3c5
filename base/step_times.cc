// See step_times.h.
#include "base/step_times.h"

#include "base/median.h"

namespace allocmark {

void StepTimes::reserve() {
  first_.reserve(kFirstCount);
  steady_.reserve(step_count_max_);
}

void StepTimes::clear() {
  count_ = 0;
  first_.clear();
  steady_.clear();
}

void StepTimes::merge(const StepTimes& other) {
  first_.insert(first_.end(), other.first_.begin(), other.first_.end());
  steady_.insert(steady_.end(), other.steady_.begin(), other.steady_.end());
}

std::uint64_t StepTimes::median() const { return median_low(steady_.empty() ? first_ : steady_); }

}  // namespace allocmark

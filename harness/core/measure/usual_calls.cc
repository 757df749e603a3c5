// See usual_calls.h.
#include "harness/core/measure/usual_calls.h"

#include <algorithm>
#include <utility>

namespace allocmark {

const UsualCalls::LongCall* UsualCalls::known_call(std::uint64_t number) {
  while (known_at_ < known_.size() && known_[known_at_].number < number) ++known_at_;
  const bool found = known_at_ < known_.size() && known_[known_at_].number == number;
  return found ? &known_[known_at_] : nullptr;
}

std::uint64_t UsualCalls::usual_of_long(std::uint64_t host_ticks) {
  if (is_first_) {
    pass_.push_back({.number = call_count_, .ticks = host_ticks});
    return host_ticks;
  }
  const LongCall* known = known_call(call_count_);
  if (known == nullptr) return long_ticks_;
  pass_.push_back({.number = call_count_, .ticks = std::min(known->ticks, host_ticks)});
  return std::min(host_ticks, kUsualMax * known->ticks);
}

void UsualCalls::end_pass() {
  std::swap(known_, pass_);
  pass_.clear();
  call_count_ = 0;
  known_at_ = 0;
  is_first_ = false;
}

}  // namespace allocmark

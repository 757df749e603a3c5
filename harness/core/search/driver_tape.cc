// See driver_tape.h.
#include "harness/core/search/driver_tape.h"

#include "base/assert.h"
#include "base/error.h"

namespace allocmark {

DriverTape::Call DriverTape::tape(Call call) {
  if (answering_ != nullptr && answered_count_ < made_count_) {
    const Call& known = calls_[answered_count_++];
    ALLOCMARK_ASSERT(known.make == call.make);
    clock_.modelled_ns += known.took_ns;
    return known;
  }
  const std::uint64_t begin_ns = real_clock_.modelled_ns;
  try {
    call.make(answering_ == nullptr ? device_ : *answering_, call);
  } catch (...) {
    is_whole_ = false;
    throw;
  }
  call.took_ns = real_clock_.modelled_ns - begin_ns;
  clock_.modelled_ns += call.took_ns;
  if (answering_ != nullptr || !is_whole_) return call;
  if (calls_.size() == call_count_max_) {
    is_whole_ = false;
    std::vector<Call>().swap(calls_);
  } else {
    calls_.push_back(call);
  }
  return call;
}

bool DriverTape::make_again(caching::Driver& device, std::size_t end) {
  for (; made_count_ < end; ++made_count_) {
    Call call = calls_[made_count_];
    if (call.handle == Handle::First) call.words[0] = handles_.at(call.words[0]);
    if (call.handle == Handle::Third) call.words[2] = handles_.at(call.words[2]);
    const Call before = call;
    const std::uint64_t begin_ns = real_clock_.modelled_ns;
    try {
      call.make(device, call);
    } catch (const EnvironmentError&) {
      return false;  // the allocator is to meet it
    }
    call.took_ns = real_clock_.modelled_ns - begin_ns;
    calls_[made_count_] = call;
    if (call.handle == Handle::Given && call.is_given && before.is_given) {
      handles_[before.words[call.asked_count]] = call.words[call.asked_count];
    } else if (call.is_given != before.is_given || call.words != before.words) {
      ++made_count_;
      return false;
    }
  }
  return true;
}

void DriverTape::answer_from_tape(caching::Driver& device) {
  answering_ = &device;
  answered_count_ = 0;
  clock_ = {};
}

caching::Driver& DriverTape::untaped() {
  is_whole_ = false;
  return answering_ == nullptr ? device_ : *answering_;
}

}  // namespace allocmark

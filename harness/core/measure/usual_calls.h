// What a call takes when nothing disturbs it. Every pass makes the same calls, so a call that takes
// long in one pass and not in the others was disturbed: its thread was preempted, or its processor
// taken away. Host times of calls flow in, in the order of the calls; what counts of them flows
// out. Of use on a simulated device, where host time is the allocator's own code. There a waiting
// allocator waits in every pass. This file times nothing itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace allocmark {

class UsualCalls {
 public:
  // Nobody preempts a thread for less: shorter calls count as they are.
  static constexpr double kLongNs = 10'000;
  // A long call may take this times as long as in another pass.
  static constexpr std::uint64_t kUsualMax = 2;

  explicit UsualCalls(std::uint64_t long_ticks) : long_ticks_(long_ticks) {}

  // The pass's next call took so long; how much of it counts.
  std::uint64_t usual_ticks(std::uint64_t host_ticks) {
    ++call_count_;
    return host_ticks <= long_ticks_ ? host_ticks : usual_of_long(host_ticks);
  }
  // What is known is then of this pass, too.
  void end_pass();

 private:
  struct LongCall {
    std::uint64_t number = 0;  // of the call in its pass, from 1
    std::uint64_t ticks = 0;   // the least of the passes so far
  };
  [[nodiscard]] std::uint64_t usual_of_long(std::uint64_t host_ticks);
  // The known call of that number, or the next one; numbers rise.
  [[nodiscard]] const LongCall* known_call(std::uint64_t number);

  std::uint64_t long_ticks_;
  std::uint64_t call_count_ = 0;
  std::size_t known_at_ = 0;
  bool is_first_ = true;
  std::vector<LongCall> known_;  // long in all passes so far
  std::vector<LongCall> pass_;   // in this pass, and known or of the first pass
};

}  // namespace allocmark

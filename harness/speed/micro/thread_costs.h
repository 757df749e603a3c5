// What simcuda says about the calling thread's time: the modelled time of its CUDA calls, and the
// host time that the simulation itself took. All zero with a real runtime.
#pragma once

#include <cstdint>

namespace allocmark {

struct ThreadCosts {
  bool simulated = false;
  std::uint64_t modelled_ns = 0;  // what the calls would have taken on the device's driver
  std::uint64_t simulator_ticks =
      0;                     // time-stamp-counter ticks inside simcuda, which host times include
  std::uint64_t ticks = 0;   // the counter now; 0 where the machine has none
  std::int64_t host_ns = 0;  // steady clock now, to turn ticks into ns
};

[[nodiscard]] ThreadCosts thread_costs_now();

// Between two readings, per operation.
struct CostsPerOperation {
  double modelled_ns = 0;
  double simulator_ns = 0;
};
[[nodiscard]] CostsPerOperation costs_between(const ThreadCosts& begin, const ThreadCosts& end,
                                              std::uint64_t count);

}  // namespace allocmark

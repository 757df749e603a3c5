// From the host at hand to another one: what host times are multiplied by and what reading the
// clock costs on either.
#pragma once

namespace allocmark {

// How host parts of samples become those of another host: what reading the clock costs is in each
// of them, whatever the host's speed.
struct HostScale {
  double factor = 1;
  double clock_ns = 0, target_clock_ns = 0;  // of a pair of readings, here and there
  // In which readings advance here, 10 ns on some hosts. A sample stands for all times within a
  // step, so it is counted at a random one of them: the median of many then lies between steps.
  double clock_step_ns = 0;

  [[nodiscard]] double shift_ns() const { return target_clock_ns - factor * clock_ns; }
};

}  // namespace allocmark

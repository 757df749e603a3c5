// From the host at hand to another one: whether host times are scaled, to which host, what they are
// multiplied by, and what reading the clock costs on either.
#pragma once

#include "results/schema.h"

namespace allocmark {

// The host that host parts are scaled to: the profile's, or this one with nothing beside it.
struct HostTarget {
  // What the reference (host_reference.h) takes there. 0: nothing is scaled.
  double reference_ns = 0;
  double clock_ns = 0;  // what reading the clock costs there; 0: as much as here
  friend bool operator==(const HostTarget&, const HostTarget&) = default;
};

// On a simulated device the profile's host where it is known, else this one. On a GPU nothing: host
// time has the driver's in it.
[[nodiscard]] HostTarget host_target_of(const Environment& environment);

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

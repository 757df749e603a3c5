// See host_scale.h.
#include "harness/core/measure/host_scale.h"

namespace allocmark {

HostTarget host_target_of(const Environment& environment) {
  if (!environment.device.starts_with("sim:")) return {};
  if (environment.profile_host_reference_ns <= 0) {
    return {.reference_ns = environment.host_reference_ns};
  }
  return {.reference_ns = environment.profile_host_reference_ns,
          .clock_ns = environment.profile_clock_overhead_ns};
}

}  // namespace allocmark

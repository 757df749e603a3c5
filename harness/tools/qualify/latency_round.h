// What the test "latency" measures: the parts of a profile's blocks whose samples are judged. A
// device flows in, samples by call and size flow out. This file times.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "harness/core/profile/blocks.h"
#include "harness/core/profile/recording.h"
#include "harness/core/replay/device_work.h"
#include "harness/tools/qualify/call_clock.h"

namespace allocmark::qualify {

// By call and size.
using Samples = std::map<std::pair<std::string, std::uint64_t>, CallSamples>;

// What rounds have measured. Calls that are only reported come between the judged ones, in the
// order of the profile's blocks: what a call costs hangs on what was called before it.
struct Measured {
  Samples judged, reported;
};

struct RoundSetup {
  const DriverTimer& time;
  DeviceWork& work;
  std::uint64_t device_bytes;  // free before the first round
  // Requests of a GiB and more. One round has too few of them for a median, so only levels that
  // repeat make them.
  bool with_gibibytes;
};

// The parts of a profile's blocks whose samples are judged: with programs that hold least memory,
// since a baseline's rows are those of its lowest level. Programs of tens of GiB would take most of
// the time and judge nothing. Throws EnvironmentError.
void measure_parts(const RoundSetup& setup, std::uint64_t round, ProfileRecording& recording);

// Brings code and tables in, whose cost would be the first samples'. The heap's program needs none:
// it is run before it is timed, to see what its calls do.
void warm_up(const RoundSetup& setup);

// One round of all parts.
void measure_round(const RoundSetup& setup, std::uint64_t round, Measured& measured);

}  // namespace allocmark::qualify

// Measures the current CUDA device into a device profile: what it is and what its driver's calls
// cost, everything that a simulated device needs (harness/simcuda/MODEL.md). Options flow in; the
// profile flows out, as rows and as the text of its file. This file times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "harness/core/profile/device_facts.h"
#include "harness/core/profile/recording.h"
#include "results/schema.h"

namespace allocmark {

struct ProfileOptions {
  std::uint64_t repeat_count = 8;  // times that every block is run, in turns
  // Called before every repeat (0-based); may be empty.
  std::function<void(std::uint64_t)> on_repeat = {};
};

struct DeviceProfile {
  DeviceFacts facts;
  ProfileRows costs;                     // by the simulator's names
  std::uint64_t clean_bytes_per_us = 0;  // how fast freed memory is cleared; 0: nobody waits for it
  std::uint64_t repeat_count = 0;
  std::uint64_t clock_overhead_ns = 0;  // taken off every sample
  double wall_s = 0;
  double host_reference_ns = 0;  // how fast the host is (measure/host_reference.h); 0: simulated
  bool simulated = false;        // times are the simulator's modelled ones
};

// On the current device, which nothing else should use. Throws EnvironmentError.
[[nodiscard]] DeviceProfile measure_profile(const ProfileOptions& options);

// The file: JSON with a line per row. `environment` says where it was measured.
[[nodiscard]] std::string to_json_text(const DeviceProfile& profile,
                                       const Environment& environment);

// For people: every row, with the interval of its repeats.
[[nodiscard]] std::string to_table(const DeviceProfile& profile);

}  // namespace allocmark

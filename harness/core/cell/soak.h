// A soak: one workload replayed on one instance of a backend for hours, as a program that is not
// restarted. What each window of passes took and left flows out as soon as the window is over; in
// memory nothing grows with time. The workload is checked once before, as a cell is. This file
// times.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "harness/core/check/verify_level.h"
#include "results/schema.h"

namespace allocmark {

struct SoakSpec {
  CellKey key;
  VerifyLevel verify = VerifyLevel::Edges;
  double seconds = 0;  // of virtual time on a simulated device
  double window_s = 0;
  double begin_s = 0;  // of the soak, where an earlier process has done a part
  friend bool operator==(const SoakSpec&, const SoakSpec&) = default;
};

// Passes that followed each other, one at least.
struct SoakWindow {
  double end_s = 0;   // of the soak
  double wall_s = 0;  // of real time
  std::uint64_t pass_count = 0, allocate_count = 0, oom_count = 0;
  double allocate_p50_ns = 0, allocate_p99_ns = 0;
  double deallocate_p50_ns = 0, deallocate_p99_ns = 0;
  // After the last pass, when the program has given everything back; 0 where the backend cannot
  // tell.
  std::uint64_t held_bytes = 0;         // by the allocator
  std::uint64_t device_bytes = 0;       // taken from the device since the soak began
  double scattered_share = 0;           // of held_bytes, outside the largest free block
  std::uint64_t device_call_count = 0;  // by the allocator, for memory, in the window
  std::uint64_t process_bytes = 0;      // resident host memory of this process
  friend bool operator==(const SoakWindow&, const SoakWindow&) = default;
};

struct SoakEnd {
  CellStatus status = CellStatus::Ok;
  std::string reason;
  std::vector<std::string> warnings{};  // as a cell's: what makes the windows doubtful
  friend bool operator==(const SoakEnd&, const SoakEnd&) = default;
};

// Nothing is thrown but WriteError: what goes wrong is the end's status. `on_window` may throw.
[[nodiscard]] SoakEnd run_soak(const SoakSpec& spec,
                               const std::function<void(const SoakWindow&)>& on_window);

}  // namespace allocmark

// The blocks of a device profile: each measures the driver calls of one kind, as programs use them
// (mixed sizes over a set of live blocks, not one call in a loop). Nothing is left on the device. A
// block is run many times, in turns with the others.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/profile/recording.h"
#include "harness/core/replay/device_work.h"
#include "harness/simcuda/simcu.h"

namespace allocmark {

// Times one call: host time on a GPU with the clock's own cost taken off, modelled time on simcuda.
class DriverTimer {
 public:
  DriverTimer(const TickClock& clock, const SimcuThreadClock* simcu)
      : clock_(clock),
        simcu_(simcu),
        overhead_ns_(simcu == nullptr ? static_cast<std::uint64_t>(clock.pair_cost_ns()) : 0) {}

  // How long the call takes, in ns.
  template <class Call>
  [[nodiscard]] std::uint64_t operator()(Call&& call) const {
    if (simcu_ != nullptr) {
      const std::uint64_t begin_ns = simcu_->modelled_ns;
      call();
      return simcu_->modelled_ns - begin_ns;
    }
    const std::uint64_t begin_ticks = clock_.now_ticks();
    call();
    const std::uint64_t ticks = clock_.now_ticks() - begin_ticks;
    const std::uint64_t duration_ns = clock_.scale().picoseconds(ticks) / 1000;
    return duration_ns > overhead_ns_ ? duration_ns - overhead_ns_ : 0;
  }
  [[nodiscard]] std::uint64_t overhead_ns() const { return overhead_ns_; }
  [[nodiscard]] bool simulated() const { return simcu_ != nullptr; }

 private:
  const TickClock& clock_;
  const SimcuThreadClock* simcu_;
  std::uint64_t overhead_ns_;
};

struct BlockSetup {
  const DriverTimer& time;
  DeviceWork& work;
  ProfileRecording& out;
  std::uint64_t seed = 0;          // of this repeat
  std::uint64_t device_bytes = 0;  // free on the device when nothing was taken
};

// How much memory is in use while a block measures, as the level of its rows: what programs of
// about a GiB or of tens of GiB hold, and a device that is nearly full.
inline constexpr std::uint64_t kSmallProgramBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kLargeProgramBytes = std::uint64_t{13} << 30;  // on average
inline constexpr std::uint64_t kLargeProgramBytesMax = std::uint64_t{21} << 30;
[[nodiscard]] inline std::uint64_t full_level(std::uint64_t device_bytes) {
  return device_bytes - kLargeProgramBytesMax;
}

// A request for which there was no memory, and what its block held then.
struct FailedRequest {
  std::string_view call;
  std::uint64_t size_bytes = 0, held_bytes = 0;
};
// Throws EnvironmentError: says how much of setup.device_bytes is neither free nor held.
[[noreturn]] void throw_no_memory(const BlockSetup& setup, const FailedRequest& request);

struct ProfileBlock {
  std::string_view name;
  std::function<void(const BlockSetup&)> run;
};

// Throw EnvironmentError on CUDA errors.
void measure_quick_calls(const BlockSetup& setup);     // host-only calls, events, streams, launch
void measure_unfinished(const BlockSetup& setup);      // queries while a kernel runs
void measure_heap(const BlockSetup& setup);            // cudaMalloc and cudaFree of mixed sizes
void measure_full_device(const BlockSetup& setup);     // the same with little memory left
void measure_large_blocks(const BlockSetup& setup);    // 1 GiB and more
void measure_pool(const BlockSetup& setup);            // cudaMallocAsync, chunks
void measure_virtual_memory(const BlockSetup& setup);  // cuMem*
void measure_copies(const BlockSetup& setup);          // copies, fills, pinned host memory

// Parts of measure_pool and measure_virtual_memory that measure_full_device repeats at its level. A
// program that does not fit is left out; without a level, mapped chunks count for what it uses.
void measure_pool_programs(const BlockSetup& setup, std::optional<std::uint64_t> chunk_level);
// Ranges of larger pieces are left out.
void measure_handles(const BlockSetup& setup, std::uint64_t level,
                     std::uint64_t piece_bytes_max = UINT64_MAX);

// Parts of measure_heap and measure_pool: the small program, which holds about a GiB.
void measure_small_heap(const BlockSetup& setup);
void measure_small_pool(const BlockSetup& setup);

// How many bytes of freed memory the device clears per microsecond; 0 where a request never waits
// for that. The cost of waiting goes to setup.out.
[[nodiscard]] std::uint64_t measure_cleaning(const BlockSetup& setup);

// In the order in which they take turns.
[[nodiscard]] const std::vector<ProfileBlock>& profile_blocks();

}  // namespace allocmark

// The clock around every timed call: the processor's time-stamp counter where it is invariant, else
// std::chrono::steady_clock. Ticks flow out; the scale turns them into picoseconds. This file
// times.
#pragma once

#include <chrono>
#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace allocmark {

inline constexpr std::uint64_t kPicosecondsPerNs = 1000;

// Ticks to picoseconds by one multiplication: picoseconds = ticks * multiplier / 2^32.
struct TickScale {
  std::uint64_t multiplier = 0;

  [[nodiscard]] std::uint64_t picoseconds(std::uint64_t ticks) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(ticks) * multiplier) >> 32);
  }
  [[nodiscard]] double ns_per_tick() const {
    return static_cast<double>(multiplier) / 4294967296.0 / kPicosecondsPerNs;
  }
};

class TickClock {
 public:
  // Takes the first reading of the calibration. uses_counter: false forces steady_clock.
  explicit TickClock(bool uses_counter = counter_is_invariant());

  // Now, in ticks. Not a serialising read: it costs about 5 ns, and the processor may move a few ns
  // of neighbouring work across it, which is below the precision promised.
  [[nodiscard]] std::uint64_t now_ticks() const {
#if defined(__x86_64__)
    if (uses_counter_) return __rdtsc();
#endif
    return steady_ns();
  }

  // Takes the second reading, at least 2 ms after the first (waits where it must), and sets the
  // scale.
  void finish_calibration();

  [[nodiscard]] TickScale scale() const { return scale_; }
  [[nodiscard]] bool uses_counter() const { return uses_counter_; }

  // The median cost of a pair of readings, in ns: what an empty timed region shows.
  [[nodiscard]] double pair_cost_ns() const;

  // The step in which readings advance, in ns: some processors count in ticks that are finer than
  // what they update (100 MHz on AMD's), so that the length of a tick says too little.
  [[nodiscard]] double step_ns() const;

  // True where the kernel says that the counter runs at one rate in all states (constant_tsc and
  // nonstop_tsc).
  [[nodiscard]] static bool counter_is_invariant();

 private:
  [[nodiscard]] static std::uint64_t steady_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  }

  struct Reading {
    std::uint64_t ticks = 0;
    std::uint64_t steady_ns = 0;
  };
  [[nodiscard]] Reading read_both() const;

  bool uses_counter_ = false;
  Reading first_;
  TickScale scale_;
};

// Processor time of this thread: what one core needs, whatever else the machine does meanwhile.
[[nodiscard]] std::uint64_t thread_cpu_ns();

}  // namespace allocmark

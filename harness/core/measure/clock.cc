// Calibration of the time-stamp counter against steady_clock. This file times.
#include "harness/core/measure/clock.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace allocmark {

namespace {

constexpr std::uint64_t kCalibrationNsMin = 2'000'000;  // 2 ms: an error of 100 ns is then 0.005 %
constexpr std::uint64_t kSteadyMultiplier = std::uint64_t{1000} << 32;  // one tick is one ns

}  // namespace

TickClock::TickClock(bool uses_counter) : uses_counter_(uses_counter) {
#if !defined(__x86_64__)
  uses_counter_ = false;
#endif
  scale_.multiplier = kSteadyMultiplier;
  first_ = read_both();
}

bool TickClock::counter_is_invariant() {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  // CPUID leaf 0x80000007, EDX bit 8: "TscInvariant" (AMD) and "Invariant TSC" (Intel).
  if (__get_cpuid(0x80000007u, &a, &b, &c, &d) == 0) return false;
  return (d & (1u << 8)) != 0;
#else
  return false;
#endif
}

TickClock::Reading TickClock::read_both() const {
  // The counter is read between two steady readings; of some tries the tightest is the least
  // disturbed.
  Reading best;
  std::uint64_t best_gap_ns = ~std::uint64_t{0};
  for (int i = 0; i < 8; ++i) {
    const std::uint64_t before_ns = steady_ns();
    const std::uint64_t ticks = now_ticks();
    const std::uint64_t after_ns = steady_ns();
    if (after_ns - before_ns >= best_gap_ns) continue;
    best_gap_ns = after_ns - before_ns;
    best = Reading{.ticks = ticks, .steady_ns = before_ns + best_gap_ns / 2};
  }
  return best;
}

void TickClock::finish_calibration() {
  if (!uses_counter_) return;
  Reading second = read_both();
  while (second.steady_ns - first_.steady_ns < kCalibrationNsMin) second = read_both();
  const long double picoseconds =
      1000.0L * static_cast<long double>(second.steady_ns - first_.steady_ns);
  const long double ticks = static_cast<long double>(second.ticks - first_.ticks);
  scale_.multiplier = static_cast<std::uint64_t>(picoseconds / ticks * 4294967296.0L);
}

double TickClock::step_ns() const {
  // Differences between readings, with a little work of changing length between them. A counter
  // that advances in steps of s gives multiples of s, up to the rounding of a scaled counter; a
  // fine one gives everything. Only where all but a few are multiples, and not all the same one, is
  // s a step.
  constexpr std::size_t kReadingCount = 4000;
  constexpr double kRemainderMax = 0.08;
  std::vector<double> differences;
  std::uint64_t before = now_ticks();
  volatile std::uint32_t work = 0;
  for (std::size_t i = 0; i < kReadingCount; ++i) {
    for (std::size_t turn = i % 13; turn > 0; --turn) work = work + 1;
    const std::uint64_t now = now_ticks();
    // A scaled counter's rounding may move it by a tick within a step.
    if (now > before + 2) differences.push_back(static_cast<double>(now - before));
    before = now;
  }
  const double tick_ns = scale_.ns_per_tick();
  if (differences.empty()) return tick_ns;
  const double shortest = *std::min_element(differences.begin(), differences.end());
  double sum = 0;
  std::size_t count = 0;
  for (const double difference : differences) {
    if (difference > 1.2 * shortest) continue;
    sum += difference;
    ++count;
  }
  const double step = sum / static_cast<double>(count);
  std::size_t near = 0, longer = 0, fits = 0;
  for (const double difference : differences) {
    if (difference > 6 * step) continue;
    const double multiple = std::round(difference / step);
    ++near;
    longer += multiple >= 2 ? 1 : 0;
    fits += std::abs(difference / step - multiple) <= kRemainderMax ? 1 : 0;
  }
  const bool is_step = longer * 20 >= near && fits * 20 >= near * 19;
  return (is_step ? step : 1) * tick_ns;
}

double TickClock::pair_cost_ns() const {
  std::array<std::uint64_t, 1001> ticks{};
  for (std::uint64_t& pair_ticks : ticks) {
    const std::uint64_t begin = now_ticks();
    pair_ticks = now_ticks() - begin;
  }
  std::nth_element(ticks.begin(), ticks.begin() + ticks.size() / 2, ticks.end());
  return static_cast<double>(ticks[ticks.size() / 2]) * scale_.ns_per_tick();
}

std::uint64_t thread_cpu_ns() {
  timespec now{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace allocmark

// See quiet_cpu.h.
#include "harness/core/measure/quiet_cpu.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace allocmark {
namespace {

constexpr int kLoopCount = 10'000;
constexpr int kTryCount = 3;

// Four independent chains keep a core's units busy, so that a sibling that uses them too shows.
std::uint64_t loop_ns() {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t a = 1;
  std::uint64_t b = 2;
  std::uint64_t c = 3;
  std::uint64_t d = 4;
  for (std::uint64_t i = 0; i < kLoopCount; ++i) {
    a += i;
    b ^= a;
    c += i;
    d ^= c;
    asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
  }
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

}  // namespace

QuietCpu::QuietCpu() { known_ = sched_getaffinity(0, sizeof allowed_, &allowed_) == 0; }

QuietCpu::~QuietCpu() {
  if (known_) (void)sched_setaffinity(0, sizeof allowed_, &allowed_);
}

int QuietCpu::move() const {
  if (!known_ || CPU_COUNT(&allowed_) < 2) return -1;
  int best_cpu = -1;
  std::uint64_t best_ns = std::numeric_limits<std::uint64_t>::max();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed_)) continue;
    const cpu_set_t set = only(cpu);
    if (sched_setaffinity(0, sizeof set, &set) != 0) continue;
    // The slowest of a few tries: a disturbed processor may have quiet moments.
    std::uint64_t slowest_ns = 0;
    for (int i = 0; i < kTryCount; ++i) slowest_ns = std::max(slowest_ns, loop_ns());
    if (slowest_ns < best_ns) {
      best_ns = slowest_ns;
      best_cpu = cpu;
    }
  }
  const cpu_set_t set = best_cpu < 0 ? allowed_ : only(best_cpu);
  (void)sched_setaffinity(0, sizeof set, &set);
  return best_cpu;
}

bool QuietCpu::move_to(int cpu) {
  const cpu_set_t set = only(cpu);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

}  // namespace allocmark

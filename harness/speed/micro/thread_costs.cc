// See thread_costs.h.
#include "harness/speed/micro/thread_costs.h"

#include <dlfcn.h>

#include <chrono>

#include "harness/simcuda/simcu.h"

namespace allocmark {
namespace {

std::uint64_t ticks_now() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

}  // namespace

ThreadCosts thread_costs_now() {
  ThreadCosts costs;
  auto* const clock =
      reinterpret_cast<decltype(simcu_thread_clock)*>(dlsym(RTLD_DEFAULT, "simcu_thread_clock"));
  if (clock != nullptr) {
    const SimcuThreadClock* const now = clock();
    costs.simulated = true;
    costs.modelled_ns = now->modelled_ns;
    costs.simulator_ticks = now->simulator_ticks;
  }
  costs.ticks = ticks_now();
  costs.host_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                      std::chrono::steady_clock::now().time_since_epoch())
                      .count();
  return costs;
}

CostsPerOperation costs_between(const ThreadCosts& begin, const ThreadCosts& end,
                                std::uint64_t count) {
  if (count == 0) {
    return {};
  }
  const double operations = static_cast<double>(count);
  CostsPerOperation costs{
      .modelled_ns = static_cast<double>(end.modelled_ns - begin.modelled_ns) / operations,
      .simulator_ns = 0};
  if (end.ticks > begin.ticks) {
    const double ns_per_tick = static_cast<double>(end.host_ns - begin.host_ns) /
                               static_cast<double>(end.ticks - begin.ticks);
    costs.simulator_ns =
        static_cast<double>(end.simulator_ticks - begin.simulator_ticks) * ns_per_tick / operations;
  }
  return costs;
}

}  // namespace allocmark

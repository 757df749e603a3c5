// Goal: what disturbs a pass here and there changes no time of a step, and what the driver takes
// does. Method: passes of given host times, one tick per ns.
#include "harness/core/measure/settled_passes.h"

#include <cstdint>
#include <vector>

#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr TickScale kSettledTick{.multiplier = std::uint64_t{1000} << 32};
constexpr std::uint64_t kCallCount = 2 * PassParts::kPartCallCount;  // of a step: two parts

struct Call {
  std::uint64_t host_ticks = 100, driver_ns = 0;
};

// Four steps; `disturbed` says which call of which step takes longer.
template <typename CallOf>
PassParts pass_of(CallOf call_of) {
  PassParts pass;
  pass.mark(false);
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (std::uint64_t call = 0; call < kCallCount; ++call) {
      const Call one = call_of(step, call);
      pass.add(one.host_ticks, one.driver_ns);
    }
    pass.mark(true);
  }
  return pass;
}

SettledPasses settle_all(const std::vector<PassParts>& passes, const HostScale& scale) {
  return settle(passes, {.scale = kSettledTick, .host_scale = scale, .step_count_max = 10});
}

constexpr HostScale kUnscaled{.factor = 0};

TEST_CASE("parts that a pass was disturbed in take a tenth more than in the others at most") {
  const auto quiet = [](std::uint64_t, std::uint64_t) { return Call{}; };
  // Every pass is disturbed, in the first or in the second part of its steps.
  const auto first = [](std::uint64_t, std::uint64_t call) {
    return Call{.host_ticks = call < kCallCount / 2 ? 400u : 100u};
  };
  const auto second = [](std::uint64_t, std::uint64_t call) {
    return Call{.host_ticks = call >= kCallCount / 2 ? 700u : 100u};
  };
  const double quiet_ns = 100 * kCallCount;
  CHECK(settle_all({pass_of(quiet)}, kUnscaled).step_ns == quiet_ns);
  const SettledPasses loaded =
      settle_all({pass_of(first), pass_of(second), pass_of(first)}, kUnscaled);
  CHECK(loaded.step_ns == Approx(1.05 * quiet_ns));
  REQUIRE(loaded.passes.size() == 3);
  CHECK(loaded.passes[1].step_ns == Approx(1.05 * quiet_ns));
  CHECK(loaded.passes[1].total_ns == Approx(4 * 1.05 * quiet_ns));
  // One pass has nothing to be held against.
  CHECK(settle_all({pass_of(first)}, kUnscaled).step_ns == 2.5 * quiet_ns);
}

TEST_CASE("driver time is each pass's own, and what is slow in all passes stays") {
  const auto slow = [](std::uint64_t step, std::uint64_t call) {
    return Call{.host_ticks = call == 7 ? 50'000u : 100u, .driver_ns = step == 3 ? 1'000u : 0u};
  };
  const auto dear = [](std::uint64_t, std::uint64_t call) {
    return Call{.host_ticks = call == 7 ? 50'000u : 100u, .driver_ns = 10'000};
  };
  const SettledPasses settled = settle_all({pass_of(slow), pass_of(dear)}, kUnscaled);
  const double host_ns = 100 * (kCallCount - 1) + 50'000;
  CHECK(settled.passes[0].total_ns == 4 * host_ns + 1'000 * kCallCount);
  CHECK(settled.passes[1].step_ns == host_ns + 10'000 * kCallCount);
}

TEST_CASE("a pass that decided otherwise stays as it is") {
  const auto quiet = [](std::uint64_t, std::uint64_t) { return Call{}; };
  PassParts other = pass_of([](std::uint64_t, std::uint64_t) { return Call{.host_ticks = 300}; });
  other.add(300, 0);
  other.mark(true);
  const SettledPasses settled = settle_all({pass_of(quiet), other}, kUnscaled);
  CHECK(settled.passes[0].step_ns == 100 * kCallCount);
  CHECK(settled.passes[1].step_ns == 300 * kCallCount);
}

TEST_CASE("host parts are scaled, with the clock of the other host in every call") {
  PassParts pass;
  for (int step = 0; step < 3; ++step) {
    pass.mark(step > 0);
    pass.add(40, 1'000);
    pass.add(30, 500);
  }
  pass.mark(true);
  const HostScale scale{.factor = 2, .clock_ns = 10, .target_clock_ns = 18};
  const SettledPasses settled = settle_all({pass}, scale);
  CHECK(settled.step_ns == 1'570);
  CHECK(settled.scaled_step_ns == 2 * (30 + 20) + 2 * 18 + 1'500);
  CHECK(settled.passes[0].scaled_total_ns == 3 * settled.scaled_step_ns);
  CHECK(settle_all({pass}, kUnscaled).scaled_step_ns == 0);
  // Less than the clock costs: nothing is left but the other host's clock.
  PassParts brief;
  brief.add(8, 0);
  brief.mark(false);
  CHECK(settle_all({brief}, scale).passes[0].scaled_total_ns == 18);
  CHECK(settle_all({brief}, scale).step_ns == 0);
  CHECK(settle_all({}, scale).passes.empty());
}

}  // namespace
}  // namespace allocmark

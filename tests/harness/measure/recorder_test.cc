// Goal: every call lands once, in the right operation, size class and part. Method: samples of
// known ticks and a scale of one ns per tick.
#include "harness/core/measure/recorder.h"

#include <cstdint>
#include <vector>

#include "harness/core/measure/clock.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr TickScale kOneNsPerTick{.multiplier = std::uint64_t{1000} << 32};

RecorderOptions simulated() {
  return {.scale = kOneNsPerTick, .has_driver_model = true, .step_count_max = 8};
}

TEST_CASE("ticks become picoseconds by the scale") {
  REQUIRE(kOneNsPerTick.picoseconds(0) == 0);
  REQUIRE(kOneNsPerTick.picoseconds(7) == 7000);
  REQUIRE(kOneNsPerTick.ns_per_tick() == 1.0);
  const TickScale half{.multiplier = std::uint64_t{500} << 32};
  REQUIRE(half.picoseconds(7) == 3500);
  // Weeks of ticks do not overflow.
  REQUIRE(half.picoseconds(std::uint64_t{1} << 52) == (std::uint64_t{1} << 52) * 500);
}

TEST_CASE("allocate and deallocate, size classes and parts are kept apart") {
  Recorder recorder(simulated());
  recorder.add(Operation::Allocate, 0, 40, 0);
  recorder.add(Operation::Allocate, 5, 60, 100'000);
  recorder.add(Operation::Deallocate, 5, 20, 5'000);

  const OperationLatency small = recorder.latency(Operation::Allocate, 0);
  REQUIRE(small.total.count == 1);
  REQUIRE(small.total.max_ns == 40);
  REQUIRE(small.host.max_ns == 40);
  REQUIRE(small.driver.count == 1);
  REQUIRE(small.driver.max_ns == 0);

  const OperationLatency large = recorder.latency(Operation::Allocate, 5);
  REQUIRE(large.total.max_ns == 100'060);
  REQUIRE(large.host.max_ns == 60);
  REQUIRE(large.driver.max_ns == 100'000);

  REQUIRE(recorder.latency(Operation::Deallocate, 5).total.max_ns == 5'020);
  REQUIRE(recorder.latency(Operation::Deallocate, 0).total.count == 0);
  REQUIRE(recorder.latency(Operation::Allocate).total.count == 2);
  REQUIRE(recorder.latency_all().count == 3);
  REQUIRE(recorder.latency_all().max_ns == 100'060);
  REQUIRE(recorder.driver_ns_total() == 105'000);
}

TEST_CASE("scaled totals have their host part multiplied, pass by pass") {
  Recorder sum(simulated());
  Recorder pass(simulated());
  pass.add(Operation::Allocate, 0, 40, 0);
  REQUIRE(pass.scaled_latency(Operation::Allocate).count == 0);
  for (const double factor : {0.5, 2.0}) {
    pass.clear();
    pass.scale_host({.factor = factor});
    pass.add(Operation::Allocate, 0, 40, 1'000);
    pass.add(Operation::Deallocate, 3, 8, 0);
    sum.merge(pass);
  }
  const LatencySummary allocate = sum.scaled_latency(Operation::Allocate);
  REQUIRE(allocate.count == 2);
  REQUIRE(allocate.max_ns == 1'080);
  REQUIRE(allocate.mean_ns == 1'050);
  REQUIRE(sum.scaled_latency(Operation::Deallocate).max_ns == 16);
  REQUIRE(sum.latency(Operation::Allocate).total.max_ns == 1'040);
  REQUIRE(sum.host_scales().size() == 2);
  REQUIRE(sum.host_scales()[0].factor == 0.5);
  REQUIRE(sum.host_scales()[1].factor == 2.0);
  pass.clear();
  pass.add(Operation::Allocate, 0, 40, 0);
  REQUIRE(pass.scaled_latency(Operation::Allocate).count == 0);
}

TEST_CASE("what reading the clock costs is not scaled, but is that of the other host") {
  Recorder pass(simulated());
  const HostScale scale{.factor = 2, .clock_ns = 10, .target_clock_ns = 18};
  REQUIRE(scale.shift_ns() == -2);
  pass.scale_host(scale);
  pass.add(Operation::Allocate, 0, 40, 1'000);
  REQUIRE(pass.scaled_latency(Operation::Allocate).max_ns == 1'078);
  // Less than the clock costs: the samples scatter.
  pass.add(Operation::Deallocate, 0, 8, 0);
  REQUIRE(pass.scaled_latency(Operation::Deallocate).max_ns == 18);
}

TEST_CASE("scaled samples of a coarse clock are spread over its step") {
  Recorder pass(simulated());
  pass.scale_host({.factor = 2, .clock_step_ns = 10});
  // The true time is 37 ns: seven of ten readings say 40, three 30.
  for (int i = 0; i < 10'000; ++i) pass.add(Operation::Allocate, 0, i % 10 < 7 ? 40 : 30, 0);
  const LatencySummary spread = pass.scaled_latency(Operation::Allocate);
  REQUIRE(spread.p50_ns == Approx(2 * (35 + 10 * 0.2 / 0.7)).epsilon(0.02));
  REQUIRE(spread.mean_ns == Approx(2 * 37).epsilon(0.01));
  REQUIRE(pass.latency(Operation::Allocate).total.p50_ns == 40);
}

TEST_CASE("own code is the calls without driver time, and all calls where those are few") {
  Recorder recorder(simulated());
  for (std::uint32_t i = 0; i < 3; ++i) recorder.add(Operation::Allocate, i, 40, 0);
  recorder.add(Operation::Allocate, 1, 5'000, 100'000);
  recorder.add(Operation::Deallocate, 0, 20, 9'000);
  const auto count = [&](Operation operation) {
    std::uint64_t sum = 0;
    for (const LatencyBucket& bucket : recorder.own_buckets(operation)) sum += bucket.count;
    return sum;
  };
  REQUIRE(count(Operation::Allocate) == 3);
  REQUIRE(count(Operation::Deallocate) == 1);
  recorder.clear();
  REQUIRE(recorder.own_buckets(Operation::Allocate).empty());
  Recorder on_gpu(RecorderOptions{.scale = kOneNsPerTick});
  on_gpu.add(Operation::Allocate, 3, 1234, 0);
  REQUIRE(on_gpu.own_buckets(Operation::Allocate).empty());
}

TEST_CASE("without a driver model the total is the host time and the driver part is empty") {
  Recorder recorder(RecorderOptions{.scale = kOneNsPerTick});
  recorder.add(Operation::Allocate, 3, 1234, 0);
  const OperationLatency latency = recorder.latency(Operation::Allocate);
  REQUIRE(latency.total.count == 1);
  REQUIRE(latency.total.max_ns == 1234);
  REQUIRE(latency.host.max_ns == 1234);
  REQUIRE(latency.driver.count == 0);
  REQUIRE(recorder.latency_all().count == 1);
}

TEST_CASE("time before the first mark belongs to no step, and the last step ends with the pass") {
  Recorder recorder(simulated());
  recorder.add(Operation::Allocate, 0, 1'000'000, 0);
  recorder.mark();
  recorder.add(Operation::Allocate, 0, 10, 100);
  recorder.add(Operation::Deallocate, 0, 5, 0);
  recorder.mark();
  recorder.add_other(7, 1'000);
  recorder.mark();
  recorder.add(Operation::Allocate, 0, 2'000, 0);
  recorder.end_pass();
  // Steps of 115, 1007 and 2000 ns, of which the first two are the set-up and the first step.
  REQUIRE(recorder.step_ns_median() == 2000);
  REQUIRE(recorder.driver_ns_total() == 1'100);
}

TEST_CASE(
    "set-up, first step and parts without requests are no steps, unless there are no others") {
  Recorder pass(simulated());
  Recorder sum(simulated());
  const auto add_pass = [&](const std::vector<std::uint64_t>& parts) {
    pass.clear();
    for (const std::uint64_t ticks : parts) {
      pass.mark();
      if (ticks != 0) pass.add(Operation::Allocate, 0, ticks, 0);
    }
    pass.end_pass();
    sum.merge(pass);
  };
  // As gpt2_train_amp goes: set-up, the step that takes memory, three more; then nothing.
  add_pass({1491, 55169, 3097, 333, 378, 0});
  REQUIRE(pass.step_ns_median() == 378);
  add_pass({1458, 55565, 3132, 13252, 368, 0});
  REQUIRE(pass.step_ns_median() == 3132);
  REQUIRE(sum.step_ns_median() == 378);  // of 333, 368, 378, 3097, 3132 and 13252
  add_pass({20, 10, 0});
  REQUIRE(pass.step_ns_median() == 10);
  REQUIRE(sum.step_ns_median() == 378);
  // As llama_generate goes: set-up and one batch. The batch is what is paid, not the cheaper part.
  add_pass({2100, 4500});
  REQUIRE(pass.step_ns_median() == 4500);
  add_pass({2100});
  REQUIRE(pass.step_ns_median() == 2100);
}

TEST_CASE("a trace without marks has no steps") {
  Recorder recorder(simulated());
  recorder.add(Operation::Allocate, 0, 10, 100);
  recorder.end_pass();
  REQUIRE(recorder.step_ns_median() == 0);
}

TEST_CASE("steps beyond the room are left out, and the recorder goes on") {
  Recorder recorder(simulated());
  for (int i = 0; i < 100; ++i) {
    recorder.mark();
    recorder.add(Operation::Allocate, 0, 10, 0);
  }
  recorder.end_pass();
  REQUIRE(recorder.step_ns_median() == 10);
  REQUIRE(recorder.latency(Operation::Allocate).total.count == 100);
}

TEST_CASE("clear forgets a pass, merge adds passes up") {
  Recorder pass(simulated());
  Recorder sum(simulated());
  for (const std::uint64_t ticks : {10u, 30u, 20u}) {
    pass.clear();
    pass.mark();
    pass.add(Operation::Allocate, 1, ticks, 0);
    pass.end_pass();
    sum.merge(pass);
  }
  REQUIRE(pass.latency(Operation::Allocate).total.count == 1);
  REQUIRE(sum.latency(Operation::Allocate).total.count == 3);
  REQUIRE(sum.latency(Operation::Allocate).total.max_ns == 30);
  REQUIRE(sum.step_ns_median() == 20);
}

TEST_CASE("size classes end where they say") {
  REQUIRE(size_class_of(0) == 0);
  REQUIRE(size_class_of(512) == 0);
  REQUIRE(size_class_of(513) == 1);
  REQUIRE(size_class_of(4096) == 1);
  REQUIRE(size_class_of(4097) == 2);
  REQUIRE(size_class_of(65536) == 2);
  REQUIRE(size_class_of(1048576) == 3);
  REQUIRE(size_class_of(1048577) == 4);
  REQUIRE(size_class_of(10485759) == 4);
  REQUIRE(size_class_of(10485760) == 5);
  REQUIRE(size_class_of(67108864) == 5);
  REQUIRE(size_class_of(67108865) == 6);
  REQUIRE(size_class_of(536870912) == 6);
  REQUIRE(size_class_of(536870913) == 7);
  REQUIRE(size_class_of(~std::uint64_t{0}) == 7);
}

TEST_CASE("both clocks run forward and are calibrated to a plausible scale") {
  for (const bool uses_counter : {false, TickClock::counter_is_invariant()}) {
    TickClock clock(uses_counter);
    const std::uint64_t first = clock.now_ticks();
    clock.finish_calibration();
    REQUIRE(clock.now_ticks() >= first);
    // Counters tick between 10 MHz and 10 GHz.
    REQUIRE(clock.scale().ns_per_tick() > 0.1);
    REQUIRE(clock.scale().ns_per_tick() < 100.0);
  }
}

}  // namespace
}  // namespace allocmark

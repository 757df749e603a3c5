// Goal: a call that was disturbed in one pass counts as in the others, and one that is long in
// every pass counts in full. Method: passes of given host times, one tick per ns.
#include "harness/core/measure/usual_calls.h"

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "harness/core/measure/recorder.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kLongTicks = 10'000;
constexpr TickScale kUsualTick{.multiplier = std::uint64_t{1000} << 32};

std::vector<std::uint64_t> pass(UsualCalls& usual, std::initializer_list<std::uint64_t> ticks) {
  std::vector<std::uint64_t> counted;
  for (const std::uint64_t one : ticks) counted.push_back(usual.usual_ticks(one));
  usual.end_pass();
  return counted;
}

using Ticks = std::vector<std::uint64_t>;

TEST_CASE("a call that is long in one pass only counts as long at most") {
  UsualCalls usual(kLongTicks);
  CHECK(pass(usual, {50, 60, 70}) == Ticks{50, 60, 70});
  CHECK(pass(usual, {50, 3'000'000, 70}) == Ticks{50, kLongTicks, 70});
  // Shorter disturbances are as good as none.
  CHECK(pass(usual, {9'999, 60, 70}) == Ticks{9'999, 60, 70});
  CHECK(pass(usual, {3'000'000, 3'000'000, 3'000'000}) == Ticks(3, kLongTicks));
}

TEST_CASE("a call that is long in every pass counts in full") {
  UsualCalls usual(kLongTicks);
  pass(usual, {50, 400'000, 70, 30'000});
  CHECK(pass(usual, {50, 420'000, 70, 25'000}) == Ticks{50, 420'000, 70, 25'000});
  CHECK(pass(usual, {50, 500'000, 70, 24'000}) == Ticks{50, 500'000, 70, 24'000});
  // Where it is disturbed, too: twice the least of the others.
  CHECK(pass(usual, {50, 5'000'000, 70, 24'000}) == Ticks{50, 800'000, 70, 24'000});
  CHECK(pass(usual, {50, 410'000, 70, 9'000'000}) == Ticks{50, 410'000, 70, 48'000});
  // One short pass shows that it need not be long.
  CHECK(pass(usual, {50, 90, 70, 24'000}) == Ticks{50, 90, 70, 24'000});
  CHECK(pass(usual, {50, 410'000, 70, 24'000}) == Ticks{50, kLongTicks, 70, 24'000});
}

TEST_CASE("what the first pass was disturbed by is forgotten with the second one") {
  UsualCalls usual(kLongTicks);
  pass(usual, {50, 3'000'000, 70});
  CHECK(pass(usual, {50, 60, 70}) == Ticks{50, 60, 70});
  CHECK(pass(usual, {50, 3'000'000, 70}) == Ticks{50, kLongTicks, 70});
}

TEST_CASE("programs take what calls usually do, and latencies what they took") {
  UsualCalls usual(kLongTicks);
  pass(usual, {100, 100, 100});
  Recorder recorder({.scale = kUsualTick, .has_driver_model = true, .step_count_max = 4});
  recorder.follow(&usual);
  recorder.scale_host({.factor = 2});
  recorder.mark();
  recorder.add(Operation::Allocate, 0, 100, 1'000);
  recorder.add(Operation::Deallocate, 0, 4'000'000, 0);
  recorder.add_other(5'000'000, 500);
  recorder.end_pass();
  CHECK(recorder.step_ns_median() == 9'001'600);
  CHECK(recorder.program_picoseconds() == 41'700'000);
  CHECK(recorder.parts().parts() == Ticks{20'100});
  CHECK(recorder.latency(Operation::Deallocate).total.max_ns == 4'000'000);
  CHECK(recorder.scaled_latency(Operation::Deallocate).max_ns == 8'000'000);
}

TEST_CASE("where nobody follows what calls usually take, all times are as measured") {
  Recorder recorder({.scale = kUsualTick, .has_driver_model = false, .step_count_max = 4});
  recorder.mark();
  recorder.add(Operation::Allocate, 0, 4'000'000, 0);
  recorder.end_pass();
  CHECK(recorder.step_ns_median() == 4'000'000);
  CHECK(recorder.parts().spans().empty());
  CHECK(recorder.program_picoseconds() == 4'000'000'000);
}

}  // namespace
}  // namespace allocmark

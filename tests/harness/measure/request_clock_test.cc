// Goal: latencies of requests follow from kernels, waits and the allocator's time by the rules that
// results/TIMES.md states. Method: a queue of two requests, computed by hand.
#include "harness/core/measure/request_clock.h"

#include <cstdint>

#include "harness/core/measure/clock.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

// Requests A (arrives at 100) and B (at 130). The allocator takes 5 ns before A's kernel of 50 ns
// and 10 ns while it runs, then 30 ns before B's kernel of 20 ns.
//   ideal: A starts at 100 and ends at 150; B starts at 150 and ends at 170.
//   real:  the host waits until 100, allocates until 105; the kernel runs until 155, which hides
//   the
//          10 ns; then it allocates until 185, and B's kernel ends at 205.
void run_two_requests(RequestClock& clock, std::uint64_t spent_ns) {
  clock.idle_until(100);
  spent_ns += 5;
  clock.spend(spent_ns * kPicosecondsPerNs);
  clock.launch(0, 50);
  spent_ns += 10;
  clock.spend(spent_ns * kPicosecondsPerNs);
  clock.synchronize();
  clock.first_token(100);
  clock.request_done(100);
  clock.idle_until(130);
  spent_ns += 30;
  clock.spend(spent_ns * kPicosecondsPerNs);
  clock.launch(0, 20);
  clock.synchronize();
  clock.request_done(130);
}

TEST_CASE("a queue of two requests takes what the hand says") {
  RequestClock clock(1);
  clock.begin_pass();
  run_two_requests(clock, 0);
  const RequestLatency found = clock.latency();
  CHECK(found.latency.count == 2);
  CHECK(found.latency.p50_ns == 55);
  CHECK(found.latency.max_ns == 75);
  CHECK(found.latency.mean_ns == 65);
  CHECK(found.ideal_latency.p50_ns == 40);
  CHECK(found.ideal_latency.max_ns == 50);
  CHECK(found.delay.p50_ns == 5);
  CHECK(found.delay.max_ns == 35);
  CHECK(found.first_token.count == 1);
  CHECK(found.first_token.max_ns == 55);
  CHECK(found.ideal_first_token.max_ns == 50);
}

TEST_CASE("the next pass begins at 0 and its samples join those of the first") {
  RequestClock clock(1);
  for (int i = 0; i < 2; ++i) {
    clock.begin_pass();
    run_two_requests(clock, 0);
  }
  CHECK(clock.latency().latency.count == 4);
  CHECK(clock.latency().latency.max_ns == 75);
  CHECK(clock.latency().latency.mean_ns == 65);
}

TEST_CASE("a pass's P99 is that of its own requests") {
  RequestClock clock(1);
  clock.begin_pass();
  CHECK(clock.pass_latency_ns_p99() == 0);
  run_two_requests(clock, 0);
  CHECK(clock.pass_latency_ns_p99() == 75);
  clock.begin_pass();
  clock.idle_until(10);
  clock.request_done(0);
  CHECK(clock.pass_latency_ns_p99() == 10);
  CHECK(clock.latency().latency.count == 3);
  CHECK(clock.latency().latency.max_ns == 75);
}

TEST_CASE("a server's times count from its start, and what came before delays nobody") {
  RequestClock clock(1);
  clock.begin_pass();
  clock.spend(7000 * kPicosecondsPerNs);
  clock.launch(0, 600);
  clock.synchronize();
  clock.start_server();
  run_two_requests(clock, 7000);
  const RequestLatency found = clock.latency();
  CHECK(found.latency.max_ns == 75);
  CHECK(found.ideal_latency.max_ns == 50);
  CHECK(found.delay.p50_ns == 5);
  CHECK(found.delay.max_ns == 35);
}

TEST_CASE("streams run beside each other and a wait is for all of them") {
  RequestClock clock(2);
  clock.begin_pass();
  clock.launch(0, 50);
  clock.launch(1, 70);
  clock.launch(0, 10);
  clock.request_done(0);  // nobody waited: the host is at 0
  clock.synchronize();
  clock.request_done(0);
  CHECK(clock.latency().latency.max_ns == 70);
  CHECK(clock.latency().latency.mean_ns == 35);
}

TEST_CASE("parts of a ns add up, and a time that has passed is no wait") {
  RequestClock clock(1);
  clock.begin_pass();
  for (std::uint64_t i = 1; i <= 10; ++i) clock.spend(i * 600);
  clock.idle_until(3);
  clock.request_done(0);
  CHECK(clock.latency().latency.max_ns == 6);
  CHECK(clock.latency().ideal_latency.max_ns == 3);
  clock.request_done(50);  // a trace may be wrong about its times; nothing is below 0
  CHECK(clock.latency().latency.count == 2);
  CHECK(clock.latency().latency.max_ns == 6);
}

}  // namespace
}  // namespace allocmark

// Workloads with other kernels than their own, and the clock of a program's steps on virtual time.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/core/measure/step_clock.h"
#include "harness/core/replay/kernel_source.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::vector<Event> events_of(const std::string& text) {
  const std::unique_ptr<EventSource> source = open_workload_with_kernels(text, 1);
  std::vector<Event> events;
  while (true) {
    const std::span<const Event> batch = source->next();
    if (batch.empty()) return events;
    events.insert(events.end(), batch.begin(), batch.end());
  }
}

std::uint64_t count(const std::vector<Event>& events, EventKind kind) {
  std::uint64_t found = 0;
  for (const Event& event : events) found += event.kind == kind ? 1 : 0;
  return found;
}

constexpr const char* kComb = "comb:size_bytes=2MiB,count=8,ask_bytes=32MiB";

}  // namespace

TEST_CASE("a kernel of the chosen duration follows every request, on the block's stream") {
  const std::vector<Event> plain = events_of(kComb);
  const std::vector<Event> busy = events_of(std::string(kComb) + "+kernels:20us");
  const std::uint64_t request_count = count(plain, EventKind::Alloc);
  REQUIRE(request_count >= 9);
  CHECK(busy.size() == plain.size() + request_count);
  for (std::size_t i = 0; i + 1 < busy.size(); ++i) {
    if (busy[i].kind != EventKind::Alloc) continue;
    CHECK(busy[i + 1].kind == EventKind::Kernel);
    CHECK(busy[i + 1].duration_ns() == 20'000);
    CHECK(busy[i + 1].stream == busy[i].stream);
  }
}

TEST_CASE("without kernels a workload keeps all its other events") {
  const std::vector<Event> plain = events_of("fuzz_r1");
  const std::uint64_t work_count = count(plain, EventKind::Kernel) + count(plain, EventKind::Busy);
  REQUIRE(work_count > 0);
  const std::vector<Event> idle = events_of("fuzz_r1+kernels:off");
  CHECK(idle.size() == plain.size() - work_count);
  CHECK(count(idle, EventKind::Busy) == 0);
  CHECK(count(idle, EventKind::Alloc) == count(plain, EventKind::Alloc));
}

TEST_CASE("the cache is emptied after every step mark") {
  const std::vector<Event> plain = events_of("gpt2_train_amp");
  const std::vector<Event> emptied = events_of("gpt2_train_amp+kernels:1us+empty_cache:steps");
  const std::uint64_t mark_count = count(plain, EventKind::Mark);
  REQUIRE(mark_count > 0);
  CHECK(count(emptied, EventKind::Trim) == mark_count);
  CHECK(count(emptied, EventKind::Kernel) == count(plain, EventKind::Alloc));
  for (std::size_t i = 0; i + 1 < emptied.size(); ++i) {
    if (emptied[i].kind == EventKind::Mark) CHECK(emptied[i + 1].kind == EventKind::Trim);
  }
}

TEST_CASE("a choice of kernels that means nothing is refused") {
  CHECK(with_kernels("gpt2_train_amp", "trace") == "gpt2_train_amp");
  CHECK(with_kernels("gpt2_train_amp", "2ms") == "gpt2_train_amp+kernels:2ms");
  for (const char* bad : {"on", "20", "0us", "us", "11s", "-1us", "20 us", "20us+kernels:1us"}) {
    CHECK_THROWS_AS(parse_kernels(bad), UsageError);
  }
  CHECK_THROWS_AS(with_kernels("gpt2_train_amp+kernels:off", "20us"), UsageError);
  CHECK_THROWS_AS(open_workload_with_kernels("gpt2_train_amp+kernels:", 1), UsageError);
}

TEST_CASE("steps and the program are timed while the clock runs, the last step to the end") {
  TickClock ticks(/*uses_counter=*/false);
  SimcuThreadClock simcu{.modelled_ns = 5'000, .simulator_ticks = 0};
  constexpr std::uint32_t kBegin = 0;
  StepClock clock(ticks, &simcu, /*step_count_max=*/10, kBegin);
  // kBegin: a recording's preamble.
  const auto spend = [&](std::uint64_t ns) { simcu.modelled_ns += ns; };
  clock.begin_pass();
  clock.resume();
  spend(100);  // before the first mark: the program's, no step's
  clock.mark(kBegin, 5);
  spend(10);
  clock.mark(1, 5);
  spend(20);
  clock.pause();
  spend(7777);  // reading the trace
  clock.resume();
  spend(10);
  clock.mark(2, 8);
  spend(500);
  clock.mark(3, 9);
  spend(3);  // nothing is asked: no step
  clock.pause();
  clock.end_pass(9);
  CHECK(clock.step_ns_median() == 10);  // of 10, 30, 500 and 3
  CHECK(clock.program_ns_median() == 643);
  CHECK(clock.step_ns_mean() == 265);  // of 30 and 500
}

}  // namespace allocmark

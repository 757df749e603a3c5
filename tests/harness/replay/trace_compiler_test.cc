// Goal: steps say the same as the events, slots are used again, and broken traces are refused with
// their event.
#include "harness/core/replay/trace_compiler.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "tests/catch.h"
#include "tests/support/stream_events.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

std::string error_of(const std::vector<Event>& events) {
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  try {
    compiler.compile(events, steps);
  } catch (const UsageError& error) {
    return error.what();
  }
  return {};
}

TEST_CASE("a free carries the size, class and stream of its block") {
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  const std::vector<Event> events{alloc(900, 70'000, 2), record_of(900, 1), free_of(900)};
  compiler.compile(events, steps);
  REQUIRE(steps.size() == 3);
  REQUIRE(steps[2].kind == EventKind::Free);
  REQUIRE(steps[2].slot == steps[0].slot);
  REQUIRE(steps[1].slot == steps[0].slot);
  REQUIRE(steps[1].stream == 1);
  REQUIRE(steps[2].size_bytes == 70'000);
  REQUIRE(steps[2].stream == 2);
  REQUIRE(steps[2].size_class == 3);
  REQUIRE(compiler.facts().stream_count == 3);
}

TEST_CASE("facts: counts and the peak of live requests") {
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  const std::vector<Event> events{{.kind = EventKind::Mark},
                                  alloc(1, 100),
                                  alloc(2, 200),
                                  free_of(1),
                                  alloc(3, 50),
                                  free_of(2),
                                  alloc(4, 0),
                                  {.kind = EventKind::Kernel},
                                  {.kind = EventKind::Busy}};
  compiler.compile(events, steps);
  const TraceFacts& facts = compiler.facts();
  REQUIRE(facts.event_count == 9);
  REQUIRE(facts.allocate_count == 4);
  REQUIRE(facts.deallocate_count == 2);
  REQUIRE(facts.mark_count == 1);
  REQUIRE(facts.work_count == 2);
  REQUIRE(facts.busy_count == 1);
  REQUIRE(facts.requested_bytes_peak == 300);
}

TEST_CASE("the rounded peak counts every live request in units of 512 B, but none that failed") {
  TraceCompiler compiler(~std::uint64_t{0});
  std::vector<ReplayStep> steps;
  Event failed = alloc(5, 5000);
  failed.tensor = TensorKind::Failed;
  const std::vector<Event> events{alloc(1, 1), alloc(2, 513),  failed,
                                  free_of(2),  alloc(3, 1536), free_of(1)};
  compiler.compile(events, steps);
  CHECK(compiler.facts().rounded_bytes_peak == 512 + 1536);
  CHECK(compiler.facts().requested_bytes_peak == 1 + 1536);
}

TEST_CASE("marks of requests are told from steps by their labels, and keep their time") {
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  const std::vector<std::string> labels = {"step0", "request_done", "idle_until", "managed_memory"};
  const std::vector<Event> events = {{.id = 0, .kind = EventKind::Mark},
                                     {.id = 2, .size_bytes = 70, .kind = EventKind::Mark},
                                     {.id = 1, .size_bytes = 50, .kind = EventKind::Mark},
                                     {.id = 9, .kind = EventKind::Mark},
                                     {.id = 3, .size_bytes = 40, .kind = EventKind::Mark}};
  compiler.compile(events, steps, labels);
  REQUIRE(steps.size() == 5);
  CHECK(steps[0].mark_class() == MarkClass::Step);
  CHECK(steps[1].mark_class() == MarkClass::IdleUntil);
  CHECK(steps[1].size_bytes == 70);
  CHECK(steps[2].mark_class() == MarkClass::RequestDone);
  CHECK(steps[3].mark_class() == MarkClass::Step);
  CHECK(steps[4].mark_class() == MarkClass::ManagedMemory);
  CHECK(compiler.facts().mark_count == 2);
  CHECK(compiler.facts().request_mark_count == 2);
}

TEST_CASE("slots are bounded by the live blocks, whatever the length of the trace") {
  // Each block is at least 512 bytes, and frees begin at 50 KiB: never more than 100 are live.
  const std::unique_ptr<EventSource> source =
      open_workload("churn:live_bytes=50KiB,size_max=1KiB,events=500000", 1);
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    steps.clear();
    compiler.compile(events, steps);
    REQUIRE(steps.size() == events.size());
  }
  REQUIRE(compiler.facts().event_count == 500'000);
  REQUIRE(compiler.slot_count() <= 100);
}

TEST_CASE("a slot is never shared by two live blocks") {
  const std::unique_ptr<EventSource> source =
      open_workload("churn:live_bytes=1GiB,size_max=4MiB,events=100000", 1);
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  std::set<std::uint32_t> live;
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    steps.clear();
    compiler.compile(events, steps);
    for (const ReplayStep& step : steps) {
      if (step.kind == EventKind::Alloc) {
        REQUIRE(live.insert(step.slot).second);
      } else if (step.kind == EventKind::Free) {
        REQUIRE(live.erase(step.slot) == 1);
      }
    }
  }
}

TEST_CASE("the slot map agrees with std::unordered_map over random work") {
  // Ids from a small range and far apart, so that probe runs form and are broken up.
  Random random(3);
  SlotMap map;
  std::unordered_map<std::uint64_t, std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 300'000; ++i) {
    const std::uint64_t id = random.below(4'000) << random.below(40);
    if (random.below(2) == 0) {
      const bool is_new = expected.emplace(id, i).second;
      REQUIRE(map.insert(id, i) == is_new);
    } else {
      const auto found = expected.find(id);
      const std::uint32_t slot = found == expected.end() ? SlotMap::kNoSlot : found->second;
      REQUIRE(map.find(id) == slot);
      REQUIRE(map.take(id) == slot);
      if (found != expected.end()) expected.erase(found);
    }
    REQUIRE(map.size() == expected.size());
  }
}

TEST_CASE("traces that break a rule are refused with the number of the event") {
  REQUIRE(error_of({alloc(1, 8), alloc(1, 8)}).find("event 1") != std::string::npos);
  REQUIRE(error_of({alloc(1, 8), free_of(1), free_of(1)}).find("event 2") != std::string::npos);
  REQUIRE(error_of({free_of(5)}).find("block 5") != std::string::npos);
  REQUIRE(error_of({record_of(5, 0)}).find("block 5") != std::string::npos);
  REQUIRE(error_of({alloc(1, ~std::uint64_t{0}), alloc(2, 1)}).find("2^64") != std::string::npos);
  REQUIRE(error_of({alloc(1, 8, 1'000'000)}).find("1000000") != std::string::npos);
  REQUIRE(error_of({alloc(0, 8), free_of(0), alloc(~std::uint64_t{0}, 1)}).empty());
}

}  // namespace
}  // namespace allocmark

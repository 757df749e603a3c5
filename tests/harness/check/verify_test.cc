// Goal: the checked pass turns planted faults into a broken rule with event and blocks, and
// collects peaks and OOM causes. Method: a fake backend without device memory; the oracle itself is
// tested in shadow_heap_test.cc.
#include "harness/core/check/verify.h"
#include "base/input_file.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/input_file.h"
#include "base/output_file.h"
#include "tests/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

Event alloc(std::uint64_t id, std::uint64_t size_bytes, std::uint32_t stream = 0) {
  return {.id = id, .size_bytes = size_bytes, .stream = stream, .kind = EventKind::Alloc};
}
Event free_of(std::uint64_t id) { return {.id = id, .kind = EventKind::Free}; }

struct Stage {
  FakeBackend backend;
  std::unique_ptr<DeviceWork> work = make_no_device_work();
  StreamSet streams{4, /*has_device=*/false};
  OomPolicy on_oom = OomPolicy::Skip;
  VerifyLevel level = VerifyLevel::Edges;
  std::uint64_t capacity_bytes = 1'000'000;
  PlacementRecorder* placements = nullptr;
  Timeline* timeline = nullptr;

  VerifyReport run(const std::vector<Event>& events) {
    TraceCompiler compiler;
    std::vector<ReplayStep> steps;
    compiler.compile(events, steps);
    Verifier verifier(VerifySetup{.replay = {.backend = &backend,
                                             .work = work.get(),
                                             .streams = streams.all(),
                                             .on_oom = on_oom},
                                  .capabilities = {.real_memory = false, .alignment_bytes = 512},
                                  .simcu = {},
                                  .facts = compiler.facts(),
                                  .level = level,
                                  .capacity_bytes = capacity_bytes,
                                  .placements = placements,
                                  .timeline = timeline});
    verifier.run({.events = events, .steps = steps, .slot_count = compiler.slot_count()});
    return verifier.report();
  }
};

MemoryStats stats_of(std::uint64_t allocated_bytes) {
  MemoryStats stats;
  stats.allocated_bytes = allocated_bytes;
  return stats;
}
MemoryStats stats_of(std::uint64_t allocated_bytes, std::uint64_t reserved_bytes) {
  MemoryStats stats = stats_of(allocated_bytes);
  stats.reserved_bytes = reserved_bytes;
  return stats;
}

bool contains(const std::optional<std::string>& text, const std::string& part) {
  return text && text->find(part) != std::string::npos;
}

TEST_CASE("a good backend breaks no rule") {
  Stage stage;
  const VerifyReport report =
      stage.run({alloc(1, 100), alloc(2, 0), alloc(3, 5000), free_of(1), free_of(2), free_of(3)});
  REQUIRE_FALSE(report.broken_rule);
  REQUIRE(report.requested_bytes_peak == 5100);
  REQUIRE(report.counts.event_count == 6);
  REQUIRE(report.counts.deallocate_count == 3);
}

TEST_CASE("an address handed out twice ends the pass and names both blocks") {
  Stage stage;
  stage.backend.address_by_request = {{2, FakeBackend::kFirstAddress}};
  const VerifyReport report =
      stage.run({alloc(11, 100), alloc(12, 100), alloc(13, 100), alloc(14, 1)});
  REQUIRE(contains(report.broken_rule, "never overlap"));
  REQUIRE(contains(report.broken_rule, "event 2"));
  REQUIRE(contains(report.broken_rule, "block 11"));
  REQUIRE(contains(report.broken_rule, "block 13"));
  REQUIRE(report.counts.event_count == 3);
}

TEST_CASE("a misaligned address is a broken rule, and none where rules are not checked") {
  Stage stage;
  stage.backend.address_by_request = {{0, FakeBackend::kFirstAddress + 256}};
  REQUIRE(contains(stage.run({alloc(1, 100)}).broken_rule, "aligned"));
  Stage unchecked;
  unchecked.level = VerifyLevel::Off;
  unchecked.backend.address_by_request = {{0, FakeBackend::kFirstAddress + 256}};
  REQUIRE_FALSE(unchecked.run({alloc(1, 100)}).broken_rule);
}

TEST_CASE("a null pointer for more than 0 bytes is a broken rule") {
  Stage stage;
  stage.backend.address_by_request = {{0, 0}};
  REQUIRE(contains(stage.run({alloc(1, 1)}).broken_rule, "has an address"));
}

TEST_CASE("a footprint below the live bytes is a broken rule") {
  Stage stage;
  stage.backend.stats_now = [] { return stats_of(600); };
  const VerifyReport report = stage.run({alloc(1, 600), alloc(2, 1)});
  REQUIRE(contains(report.broken_rule, "allocated_bytes is 600 bytes while 601 bytes are live"));
}

TEST_CASE(
    "peaks are taken after every allocation, and what belongs to them when they are first "
    "reached") {
  Stage stage;
  const std::vector<MemoryStats> answers{stats_of(1000, 4000), stats_of(3000, 4000),
                                         stats_of(2000, 4000), stats_of(2500, 5000),
                                         stats_of(2600, 5000)};
  std::size_t next = 0;
  stage.backend.stats_now = [&] { return answers[next++]; };
  const VerifyReport report = stage.run({alloc(1, 100), alloc(2, 200), free_of(2), alloc(3, 150),
                                         alloc(4, 10), free_of(1), alloc(5, 20)});
  REQUIRE(report.reserved_bytes_peak == 5000);
  REQUIRE(report.allocated_bytes_peak == 3000);
  REQUIRE(report.allocated_bytes_at_reserved_peak == 2500);
  REQUIRE(report.requested_bytes_at_reserved_peak == 260);
  REQUIRE(report.requested_bytes_peak == 300);
  REQUIRE(report.reserved_bytes_at_requested_peak == 4000);
  REQUIRE_FALSE(report.active_bytes_peak);
}

TEST_CASE("failed requests are counted by cause, and the first one is kept") {
  Stage stage;
  stage.capacity_bytes = 1000;
  stage.backend.failing_requests = {1, 2};
  stage.backend.stats_now = [] {
    MemoryStats stats = stats_of(512);
    stats.free_largest_bytes = 44;
    stats.active_bytes = 512;
    stats.reserved_bytes = 900;
    return stats;
  };
  const VerifyReport report =
      stage.run({alloc(1, 500), alloc(2, 600), free_of(2), alloc(3, 200), free_of(1), free_of(3)});
  REQUIRE(report.counts.oom_count == 2);
  REQUIRE(report.counts.skipped_free_count == 2);
  REQUIRE(report.oom_cause_counts[static_cast<std::size_t>(OomCause::Capacity)] == 1);
  REQUIRE(report.oom_cause_counts[static_cast<std::size_t>(OomCause::Fragmentation)] == 1);
  REQUIRE(report.oom_first->event_index == 1);
  REQUIRE(report.oom_first->id == 2);
  REQUIRE(report.oom_first->size_bytes == 600);
  REQUIRE(report.oom_first->cause == OomCause::Capacity);
  REQUIRE(report.oom_first->free_largest_bytes == 44);
  REQUIRE(report.oom_first->free_bytes == 388);
}

TEST_CASE("under the stop policy the checked pass ends at the failed request") {
  Stage stage;
  stage.on_oom = OomPolicy::Stop;
  stage.backend.failing_requests = {1};
  const VerifyReport report = stage.run({alloc(1, 500), alloc(2, 600), alloc(3, 1)});
  REQUIRE(report.counts.stopped);
  REQUIRE(report.counts.event_count == 2);
  REQUIRE(report.counts.oom_count == 1);
}

TEST_CASE("placements are written as a golden") {
  Stage stage;
  const TemporaryFolder folder;
  OutputFile file(folder.path("golden.txt"));
  PlacementRecorder recorder(file, stage.backend,
                             {.device_total_bytes = 1000, .allocator = "fake", .conf = "key:1"});
  stage.placements = &recorder;
  stage.backend.failing_requests = {2};
  stage.run({alloc(5, 100, 3), free_of(5), alloc(6, 700), alloc(7, 9)});
  recorder.end(4);
  file.finish();
  REQUIRE(read_file(folder.path("golden.txt")) ==
          "c total=1000 fraction_cap=0 backend=fake\n# conf: key:1\n"
          "g 0 0 1099511627776 0 0\na 0 10000\na 0 10400\na oom\ns 4\n");
}

TEST_CASE("a timeline gets every moment of a short pass, frees and failures included") {
  Timeline timeline(4);
  Stage stage;
  stage.timeline = &timeline;
  stage.backend.failing_requests = {1};
  stage.backend.stats_now = [] { return stats_of(9000, 20000); };
  stage.run({alloc(1, 500), alloc(2, 600), alloc(3, 70), free_of(1)});
  const std::string json = timeline.to_json("x");
  CHECK(json.find("\"event_index\":[0,1,2,3],\"requested_bytes\":[500,500,570,70],") !=
        std::string::npos);
  CHECK(json.find("\"reserved_bytes\":[20000,20000,20000,20000]") != std::string::npos);
  CHECK(json.find("\"active_bytes\":null") != std::string::npos);
  CHECK(json.find("\"oom_event_index\":[1]") != std::string::npos);
}

TEST_CASE("the checked pass and a replay see the same placements") {
  const std::vector<Event> events{alloc(1, 10), alloc(2, 20), free_of(1), alloc(3, 30)};
  Stage stage;
  stage.backend.failing_requests = {1};
  const VerifyReport report = stage.run(events);
  FakeBackend backend;
  backend.failing_requests = {1};
  Replayer replayer(
      ReplaySetup{.backend = &backend, .work = stage.work.get(), .streams = stage.streams.all()});
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  compiler.compile(events, steps);
  replayer.reserve_slots(compiler.slot_count());
  replayer.run(steps);
  REQUIRE(replayer.placement_hash() == report.placement_hash);
}

}  // namespace
}  // namespace allocmark

// Goal: the replayer makes the right calls, with the right size and stream, under both policies.
// Method: a fake backend that writes its calls down; streams are numbers, never used by a device.
#include "harness/core/replay/replay.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "harness/core/cell/null_overhead.h"
#include "harness/core/replay/device_work.h"
#include "tests/catch.h"
#include "tests/support/fake_backend.h"
#include "tests/support/stream_events.h"

namespace allocmark {
namespace {

Event plain(EventKind kind) { return {.kind = kind}; }

// Work that writes its calls into the same list as the backend.
class ListedWork final : public DeviceWork {
 public:
  explicit ListedWork(std::vector<std::string>& calls) : calls_(calls) {}
  void launch(cudaStream_t /*stream*/, std::uint64_t duration_ns) override {
    calls_.push_back("kernel " + std::to_string(duration_ns));
  }
  void launch_gated(cudaStream_t /*stream*/) override { calls_.emplace_back("busy"); }
  void spend_host(std::uint64_t duration_ns) override {
    calls_.push_back("host " + std::to_string(duration_ns));
  }
  void synchronize() override { calls_.emplace_back("sync"); }

 private:
  std::vector<std::string>& calls_;
};

// A replayer over a fake backend with three streams, called 0, 1 and 2.
struct Stage {
  FakeBackend backend;
  ListedWork work{backend.calls};
  std::array<cudaStream_t, 3> streams{nullptr, reinterpret_cast<cudaStream_t>(1),
                                      reinterpret_cast<cudaStream_t>(2)};
  TraceCompiler compiler;

  [[nodiscard]] ReplaySetup setup(OomPolicy on_oom = OomPolicy::Skip) {
    return {.backend = &backend, .work = &work, .streams = streams, .on_oom = on_oom};
  }
  void run(Replayer& replayer, const std::vector<Event>& events) {
    std::vector<ReplayStep> steps;
    compiler.compile(events, steps);
    replayer.reserve_slots(compiler.slot_count());
    replayer.run(steps);
  }
};

using Calls = std::vector<std::string>;

TEST_CASE("every event becomes its call, with the block's size and stream") {
  Stage stage;
  Replayer replayer(stage.setup());
  stage.run(replayer, {plain(EventKind::Mark),
                       alloc(7, 100, 1),
                       alloc(8, 0),
                       {.size_bytes = 5000, .stream = 1, .kind = EventKind::Kernel},
                       plain(EventKind::Busy),
                       record_of(7, 2),
                       free_of(7),
                       plain(EventKind::Sync),
                       plain(EventKind::Trim),
                       free_of(8)});
  REQUIRE(stage.backend.calls == Calls{"alloc 100 s1", "alloc 0 s0", "kernel 5000", "busy",
                                       "record #0 s2", "free #0 100 s1", "sync", "trim",
                                       "free #1 0 s0"});
  REQUIRE(replayer.counts().event_count == 10);
  REQUIRE(replayer.counts().allocate_count == 2);
  REQUIRE(replayer.counts().deallocate_count == 2);
  REQUIRE(replayer.counts().oom_count == 0);
}

TEST_CASE("replay skips the free and the records of a failed allocation, and counts them") {
  Stage stage;
  stage.backend.failing_requests = {1};
  Replayer replayer(stage.setup());
  stage.run(replayer, {alloc(1, 10), alloc(2, 20), record_of(2, 1), free_of(2), alloc(3, 30),
                       free_of(1), free_of(3)});
  REQUIRE(stage.backend.calls ==
          Calls{"alloc 10 s0", "alloc 20 s0", "alloc 30 s0", "free #0 10 s0", "free #2 30 s0"});
  REQUIRE(replayer.counts().oom_count == 1);
  REQUIRE(replayer.counts().skipped_free_count == 1);
  REQUIRE(replayer.counts().skipped_record_count == 1);
  REQUIRE(replayer.counts().allocate_count == 3);
  REQUIRE(replayer.counts().deallocate_count == 2);
  REQUIRE_FALSE(replayer.counts().stopped);
}

TEST_CASE("the slot of a failed block is clean when it is used again") {
  Stage stage;
  stage.backend.failing_requests = {0};
  Replayer replayer(stage.setup());
  stage.run(replayer, {alloc(1, 10), free_of(1), alloc(2, 20), free_of(2)});
  REQUIRE(stage.backend.calls == Calls{"alloc 10 s0", "alloc 20 s0", "free #1 20 s0"});
  REQUIRE(replayer.counts().skipped_free_count == 1);
}

TEST_CASE("retry-after-sync asks once more when the device is done, and then goes on") {
  Stage stage;
  stage.backend.failing_requests = {1, 3, 4};
  Replayer replayer(stage.setup(OomPolicy::RetryAfterSync));
  stage.run(replayer, {alloc(1, 10), alloc(2, 20), alloc(3, 30), free_of(2), free_of(3)});
  REQUIRE(stage.backend.calls == Calls{"alloc 10 s0", "alloc 20 s0", "sync", "alloc 20 s0",
                                       "alloc 30 s0", "sync", "alloc 30 s0", "free #2 20 s0"});
  REQUIRE(replayer.counts().asked_after_sync_count == 2);
  REQUIRE(replayer.counts().served_after_sync_count == 1);
  REQUIRE(replayer.counts().oom_count == 1);
  REQUIRE(replayer.counts().allocate_count == 3);
  REQUIRE(replayer.counts().skipped_free_count == 1);
  REQUIRE_FALSE(replayer.counts().stopped);
}

TEST_CASE("under the stop policy the trace ends at the failed request, also for later batches") {
  Stage stage;
  stage.backend.failing_requests = {1};
  Replayer replayer(stage.setup(OomPolicy::Stop));
  stage.run(replayer, {alloc(1, 10), alloc(2, 20), alloc(3, 30), free_of(1)});
  stage.run(replayer, {alloc(4, 40)});
  REQUIRE(stage.backend.calls == Calls{"alloc 10 s0", "alloc 20 s0"});
  REQUIRE(replayer.counts().stopped);
  REQUIRE(replayer.counts().event_count == 2);
  REQUIRE(replayer.counts().oom_count == 1);
}

TEST_CASE("blocks left at the end are given back once, failed ones are not") {
  Stage stage;
  stage.backend.failing_requests = {1};
  Replayer replayer(stage.setup());
  stage.run(replayer, {alloc(1, 10, 2), alloc(2, 20), alloc(3, 30, 1), free_of(3)});
  stage.backend.calls.clear();
  replayer.release_live();
  replayer.release_live();
  REQUIRE(stage.backend.calls == Calls{"free #0 10 s2"});
  REQUIRE(replayer.counts().deallocate_count == 1);
}

TEST_CASE("a recorder sees every successful call once and changes no call") {
  const std::vector<Event> events{plain(EventKind::Mark),
                                  alloc(1, 10),
                                  alloc(2, 20'000'000),
                                  alloc(3, 30),
                                  free_of(1),
                                  free_of(2),
                                  free_of(3)};
  Stage bare;
  bare.backend.failing_requests = {2};
  Replayer without(bare.setup());
  bare.run(without, events);

  Stage timed;
  timed.backend.failing_requests = {2};
  TickClock clock;
  clock.finish_calibration();
  Recorder recorder(RecorderOptions{.scale = clock.scale(), .step_count_max = 4});
  ReplaySetup setup = timed.setup();
  setup.recorder = &recorder;
  setup.clock = &clock;
  Replayer with(setup);
  timed.run(with, events);

  REQUIRE(timed.backend.calls == bare.backend.calls);
  REQUIRE(with.placement_hash() == without.placement_hash());
  REQUIRE(recorder.latency(Operation::Allocate).total.count == 2);
  REQUIRE(recorder.latency(Operation::Allocate, 5).total.count == 1);
  REQUIRE(recorder.latency(Operation::Deallocate).total.count == 2);
}

TEST_CASE("the driver's part is what the simulator's clock moved by") {
  // Method: a work object stands in for simcuda and moves the clock; allocations of the fake do
  // not.
  Stage stage;
  SimcuThreadClock simcu_clock{.modelled_ns = 1'000'000, .simulator_ticks = 0};
  class SlowBackend final : public Backend {
   public:
    explicit SlowBackend(SimcuThreadClock& clock) : clock_(clock) {}
    AllocateResult allocate(std::uint64_t /*size_bytes*/, cudaStream_t /*stream*/) override {
      clock_.modelled_ns += 2'500;
      return {};
    }
    void deallocate(void* /*pointer*/, std::uint64_t /*size_bytes*/,
                    cudaStream_t /*stream*/) override {
      clock_.modelled_ns += 700;
    }
    MemoryStats stats(cudaStream_t /*stream*/) const override { return {}; }

   private:
    SimcuThreadClock& clock_;
  } backend(simcu_clock);
  TickClock clock;
  clock.finish_calibration();
  Recorder recorder(RecorderOptions{.scale = clock.scale(), .has_driver_model = true});
  ReplaySetup setup = stage.setup();
  setup.backend = &backend;
  setup.recorder = &recorder;
  setup.clock = &clock;
  setup.simcu_clock = &simcu_clock;
  Replayer replayer(setup);
  stage.run(replayer, {alloc(1, 10), alloc(2, 10), free_of(1), free_of(2)});
  REQUIRE(recorder.latency(Operation::Allocate).driver.max_ns == 2'500);
  REQUIRE(recorder.latency(Operation::Deallocate).driver.max_ns == 700);
  REQUIRE(recorder.driver_ns_total() == 6'400);
}

TEST_CASE("placements are compared relative to the first allocation") {
  const std::vector<Event> events{alloc(1, 10), alloc(2, 20), free_of(1), alloc(3, 30)};
  const auto hash_of = [&](const std::map<std::uint64_t, std::uint64_t>& addresses) {
    Stage stage;
    stage.backend.address_by_request = addresses;
    Replayer replayer(stage.setup());
    stage.run(replayer, events);
    return replayer.placement_hash();
  };
  REQUIRE(hash_of({{0, 4096}, {1, 8192}, {2, 4096}}) == hash_of({{0, 1024}, {1, 5120}, {2, 1024}}));
  REQUIRE(hash_of({{0, 4096}, {1, 8192}, {2, 4096}}) != hash_of({{0, 4096}, {1, 8192}, {2, 4608}}));
}

TEST_CASE("only skip and stop are policies") {
  REQUIRE(parse_oom_policy("skip") == OomPolicy::Skip);
  REQUIRE(parse_oom_policy("stop") == OomPolicy::Stop);
  REQUIRE_THROWS_AS(parse_oom_policy("skp"), UsageError);
}

TEST_CASE("the null backend's overhead is measured over enough events, however short the trace") {
  TickClock clock;
  clock.finish_calibration();
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  compiler.compile(std::vector<Event>{alloc(1, 10), free_of(1)}, steps);
  const TraceBatch prefix{.events = {}, .steps = steps, .slot_count = compiler.slot_count()};
  const LatencySummary overhead =
      null_overhead(prefix, NullOverheadSetup{.clock = &clock, .event_count_min = 1000});
  REQUIRE(overhead.count == 1000);
  REQUIRE(null_overhead(TraceBatch{}, NullOverheadSetup{.clock = &clock}).count == 0);
}

TEST_CASE("busy kernels are named as what makes a replay slow, where they do") {
  const SimcuApi gpu, simulated{.present = true};
  CHECK(gate_stall_note(12, gpu) ==
        "the trace has 12 busy kernels, which end at its next sync: a request in which the "
        "allocator waits for the device before that takes 700 ms");
  CHECK(gate_stall_note(0, gpu).empty());
  CHECK(gate_stall_note(12, simulated).empty());
}

}  // namespace
}  // namespace allocmark

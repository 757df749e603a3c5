// clock: what an empty timed region shows. replay/...: events through the replayer, with and
// without a recorder.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/bench/benchmarks.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

constexpr double kTargetEventsPerSecond = 5e6;  // at least; caching without a recorder
constexpr double kTargetLatencyNsP50 = 25;      // at most; null with a recorder
constexpr double kTargetLatencyNsP99 = 60;

void clock_pair(benchmark::State& state) {
  TickClock clock;
  clock.finish_calibration();
  for (auto _ : state) {
    benchmark::DoNotOptimize(clock.now_ticks());
    benchmark::DoNotOptimize(clock.now_ticks());
  }
  state.counters["pair_cost_ns"] = clock.pair_cost_ns();
}

struct ReplayCell {
  BenchSide side;
  std::string workload;
  bool records = false;
};

void set_counters(benchmark::State& state, const ReplayCell& cell, std::uint64_t event_count,
                  const std::optional<Recorder>& recorder) {
  const auto count = static_cast<double>(event_count);
  state.SetItemsProcessed(static_cast<std::int64_t>(event_count));
  state.counters["s_per_event"] =
      benchmark::Counter(count, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["resident_bytes_peak"] = resident_bytes_peak();
  state.counters["target_resident_bytes_peak"] = kTargetResidentBytesPeak;
  const std::string_view name = cell.side.entry->name;
  if (recorder) {
    const LatencySummary latency = recorder->latency_all();
    state.counters["latency_ns_p50"] = latency.p50_ns;
    state.counters["latency_ns_p99"] = latency.p99_ns;
    if (name == "null") {
      state.counters["target_latency_ns_p50"] = kTargetLatencyNsP50;
      state.counters["target_latency_ns_p99"] = kTargetLatencyNsP99;
    }
  } else if (name == "caching") {
    state.counters["target_items_per_second"] = kTargetEventsPerSecond;
  }
}

// Passes on one instance; live blocks are given back in between.
void replay(benchmark::State& state, const ReplayCell& cell) {
  TickClock clock;
  clock.finish_calibration();
  PreparedTrace trace(open_workload(cell.workload, 1));
  const SimcuApi simcu = SimcuApi::find();
  const bool has_device = cell.side.entry->capabilities.real_memory;
  const StreamSet streams(trace.facts().stream_count, has_device);
  const std::unique_ptr<DeviceWork> work =
      has_device ? make_device_work(simcu) : make_no_device_work();
  const std::unique_ptr<Backend> backend = cell.side.entry->make({.conf = cell.side.conf});
  std::optional<Recorder> recorder;
  if (cell.records) recorder.emplace(RecorderOptions{.scale = clock.scale()});
  const ReplaySetup setup{
      .backend = backend.get(),
      .work = work.get(),
      .streams = streams.all(),
      .recorder = recorder ? &*recorder : nullptr,
      .clock = &clock,
      .simcu_clock = has_device && simcu.present ? simcu.thread_clock() : nullptr};
  std::uint64_t event_count = 0;
  const auto pass = [&](const auto& run) {
    Replayer replayer(setup);
    trace.for_each_step_batch([&](const TraceBatch& batch) {
      replayer.reserve_slots(batch.slot_count);
      run(replayer, batch.steps);
      return true;
    });
    event_count += replayer.counts().event_count;
    replayer.release_live();
  };
  pass([](Replayer& replayer, std::span<const ReplayStep> steps) { replayer.run(steps); });
  if (recorder) recorder->clear();
  event_count = 0;
  for (auto _ : state) {
    state.PauseTiming();
    pass([&](Replayer& replayer, std::span<const ReplayStep> steps) {
      state.ResumeTiming();
      replayer.run(steps);
      state.PauseTiming();
    });
    state.ResumeTiming();
  }
  set_counters(state, cell, event_count, recorder);
}

}  // namespace

void register_replay_benchmarks(const BenchOptions& options) {
  add_benchmark("clock", clock_pair);
  // The churn has about two thousand live blocks, most of them small.
  const std::vector<std::string> workloads =
      options.workloads.empty()
          ? std::vector<std::string>{"churn:live_bytes=1GiB,size_max=4MiB,events=1000000",
                                     "gpt2_train_amp"}
          : options.workloads;
  for (const BenchSide& side : bench_sides(options, {"null", "caching", "torch"})) {
    for (const std::string& workload : workloads) {
      for (const bool records : {false, true}) {
        const ReplayCell cell{.side = side, .workload = workload, .records = records};
        add_benchmark(fmt::format("replay/{}/recorder:{}/{}", name_of(side), records ? "on" : "off",
                                  workload),
                      [cell](benchmark::State& state) { replay(state, cell); })
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace allocmark

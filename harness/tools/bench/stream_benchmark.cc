// generate/...: how fast a workload's events are made, and how much memory that takes, with no
// allocator behind them. long/...: a long trace, generated, compiled and replayed batch by batch.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/process_memory.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/trace_compiler.h"
#include "harness/tools/bench/benchmarks.h"
#include "workloads/generators.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {
namespace {

constexpr double kTargetEventsPerSecond = 20e6;  // at least
// By which the memory may grow after the first tenth of the events.
constexpr std::uint64_t kGrowthTolerance = kMiB;
// Reading the resident size costs microseconds; once per so many events it does not show.
constexpr std::uint64_t kEventsPerLook = std::uint64_t{1} << 18;

// Resident memory beyond what it was at first: the largest seen, and that of the first tenth.
class Growth {
 public:
  void look(bool in_first_tenth) {
    const std::uint64_t now_bytes = resident_bytes();
    bytes_ = std::max(bytes_, now_bytes - std::min(now_bytes, before_bytes_));
    if (in_first_tenth) tenth_bytes_ = bytes_;
  }
  void set_counters(benchmark::UserCounters& counters) const {
    counters["growth_bytes_tenth"] = static_cast<double>(tenth_bytes_);
    counters["growth_bytes"] = static_cast<double>(bytes_);
    counters["target_growth_bytes"] = static_cast<double>(tenth_bytes_ + kGrowthTolerance);
  }

 private:
  // 0 where the system does not say.
  static std::uint64_t resident_bytes() { return process_memory(::getpid()).resident_bytes; }

  std::uint64_t before_bytes_ = resident_bytes();
  std::uint64_t bytes_ = 0;
  std::uint64_t tenth_bytes_ = 0;
};

using Consume = std::function<void(std::span<const Event> events)>;

// Makes event_count events (at least), starting again from the first where the trace ends. One
// iteration makes them all.
void stream_events(benchmark::State& state, const std::string& workload, std::uint64_t event_count,
                   const Consume& consume) {
  Growth growth;
  const std::unique_ptr<EventSource> source = open_workload(workload, 1);
  std::uint64_t made_count = 0;
  for (auto _ : state) {
    std::uint64_t next_look = 0;
    while (made_count < event_count) {
      const std::span<const Event> events = source->next();
      if (events.empty()) source->rewind();
      if (events.empty() && made_count == 0) return state.SkipWithError("it has no events");
      if (consume) consume(events);
      made_count += events.size();
      if (made_count < next_look && made_count < event_count) continue;
      next_look = made_count + kEventsPerLook;
      state.PauseTiming();
      growth.look(made_count <= event_count / 10);
      state.ResumeTiming();
    }
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(made_count));
  state.counters["s_per_event"] = benchmark::Counter(
      static_cast<double>(made_count), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  growth.set_counters(state.counters);
}

void generate(benchmark::State& state, const std::string& workload, std::uint64_t event_count) {
  stream_events(state, workload, event_count, {});
  state.counters["target_items_per_second"] = kTargetEventsPerSecond;
}

// Nothing of the trace is kept.
void replay_long(benchmark::State& state, const std::string& workload, std::uint64_t event_count) {
  const std::unique_ptr<Backend> backend = find_backend("null").make({});
  const std::unique_ptr<DeviceWork> work = make_no_device_work();
  const StreamSet streams(1, /*has_device=*/false);
  Replayer replayer(
      ReplaySetup{.backend = backend.get(), .work = work.get(), .streams = streams.all()});
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  stream_events(state, workload, event_count, [&](std::span<const Event> events) {
    steps.clear();
    compiler.compile(events, steps);
    replayer.reserve_slots(compiler.slot_count());
    replayer.run(steps);
  });
  state.counters["resident_bytes_peak"] = resident_bytes_peak();
  state.counters["target_resident_bytes_peak"] = kTargetResidentBytesPeak;
}

using Body = void (*)(benchmark::State& state, const std::string& workload,
                      std::uint64_t event_count);

void add(const std::string& name, Body body, const std::string& workload,
         std::uint64_t event_count) {
  add_benchmark(name, [=](benchmark::State& state) { body(state, workload, event_count); })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1);
}

}  // namespace

void register_stream_benchmarks(const BenchOptions& options) {
  // Never shorter than what is asked for: block numbers of a second round would be used again.
  add("long/null/churn", replay_long,
      fmt::format("churn:live_bytes=1GiB,size_max=4MiB,events={}", options.event_count),
      options.event_count);
  std::vector<std::string> workloads = options.workloads;
  if (workloads.empty()) {
    for (const GeneratorEntry& generator : generators()) workloads.emplace_back(generator.example);
  }
  for (const std::string& workload : workloads) {
    add("generate/" + workload, generate, workload, options.event_count);
  }
}

}  // namespace allocmark

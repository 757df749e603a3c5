// The speed measurements. This file times.
#include "harness/speed/speed.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/measure/clock.h"
#include "harness/measure/recorder.h"
#include "harness/replay/device_work.h"
#include "harness/replay/prepared_trace.h"
#include "harness/replay/replay.h"
#include "harness/replay/simcu_api.h"
#include "workloads/open_workload.h"
#include "workloads/trace/source.h"

namespace allocmark {

namespace {

constexpr std::uint64_t kRoundCount = 3;

// A backend and all that a replay on it needs.
struct Bench {
  TickClock clock;
  SimcuApi simcu = SimcuApi::find();
};

struct Replayed {
  std::uint64_t event_count = 0;
  std::uint64_t cpu_ns = 0;
};

double ns_per_event(const Replayed& replayed) {
  if (replayed.event_count == 0) return 0;
  return static_cast<double>(replayed.cpu_ns) / static_cast<double>(replayed.event_count);
}

// Runs the trace on a fresh instance until event_count_min events are done; live blocks are given
// back in between.
Replayed replay(const Bench& bench, PreparedTrace& trace, const BackendEntry& entry,
                std::uint64_t event_count_min, Recorder* recorder) {
  const bool has_device = entry.capabilities.real_memory;
  const StreamSet streams(trace.facts().stream_count, has_device);
  const std::unique_ptr<DeviceWork> work =
      has_device ? make_device_work(bench.simcu) : make_no_device_work();
  const std::unique_ptr<Backend> backend = entry.make(BackendOptions{});
  const SimcuThreadClock* simcu_clock =
      has_device && bench.simcu.present ? bench.simcu.thread_clock() : nullptr;
  Replayed total;
  while (total.event_count < event_count_min) {
    Replayer replayer(ReplaySetup{.backend = backend.get(),
                                  .work = work.get(),
                                  .streams = streams.all(),
                                  .recorder = recorder,
                                  .clock = &bench.clock,
                                  .simcu_clock = simcu_clock});
    trace.for_each_step_batch([&](const TraceBatch& batch) {
      replayer.reserve_slots(batch.slot_count);
      const std::uint64_t begin_ns = thread_cpu_ns();
      replayer.run(batch.steps);
      total.cpu_ns += thread_cpu_ns() - begin_ns;
      return true;
    });
    total.event_count += replayer.counts().event_count;
    replayer.release_live();
  }
  return total;
}

// About two thousand live blocks, most of them small.
std::unique_ptr<EventSource> churn(std::uint64_t event_count) {
  return open_workload("churn:live_bytes=1GiB,size_max=4MiB,events=" + std::to_string(event_count),
                       1);
}

void measure_null(const Bench& bench, const SpeedOptions& options, SpeedReport& report) {
  PreparedTrace trace(churn(options.null_event_count));
  const BackendEntry& entry = find_backend("null");
  Recorder recorder(RecorderOptions{.scale = bench.clock.scale()});
  (void)replay(bench, trace, entry, 1, &recorder);
  recorder.clear();
  const Replayed timed = replay(bench, trace, entry, options.null_event_count, &recorder);
  const LatencySummary latency = recorder.latency_all();
  report.null_latency_ns_p50 = latency.p50_ns;
  report.null_latency_ns_p99 = latency.p99_ns;
  report.null_cpu_ns_per_event = ns_per_event(timed);
  const Replayed bare = replay(bench, trace, entry, options.null_event_count, nullptr);
  report.null_bare_cpu_ns_per_event = ns_per_event(bare);
}

double best_million_events_per_s(const Bench& bench, PreparedTrace& trace,
                                 const BackendEntry& entry, std::uint64_t event_count) {
  double best = 0;
  for (std::uint64_t round = 0; round < kRoundCount; ++round) {
    const Replayed replayed = replay(bench, trace, entry, event_count / kRoundCount, nullptr);
    best = std::max(best, 1000.0 / ns_per_event(replayed));
  }
  return best;
}

void measure_caching(const Bench& bench, const SpeedOptions& options, SpeedReport& report) {
  try {
    const BackendEntry& entry = find_backend("caching");
    report.caching_reason = entry.unavailable_reason();
    if (!report.caching_reason.empty()) return;
    PreparedTrace trace(
        churn(std::min(options.caching_event_count, PreparedTrace::kKeptCountMax / 4)));
    report.caching_churn_million_events_per_s =
        best_million_events_per_s(bench, trace, entry, options.caching_event_count);
    PreparedTrace recorded(open_workload(options.recorded_workload, 0));
    report.caching_recorded_million_events_per_s =
        best_million_events_per_s(bench, recorded, entry, options.caching_event_count);
  } catch (const Error& error) {
    report.caching_reason = error.what();
  }
}

// Generates, compiles and replays batch by batch: nothing of the trace is kept.
void measure_long_trace(const SpeedOptions& options, SpeedReport& report) {
  const BackendEntry& entry = find_backend("null");
  const std::unique_ptr<Backend> backend = entry.make(BackendOptions{});
  const std::unique_ptr<DeviceWork> work = make_no_device_work();
  const StreamSet streams(1, /*has_device=*/false);
  Replayer replayer(
      ReplaySetup{.backend = backend.get(), .work = work.get(), .streams = streams.all()});
  const std::unique_ptr<EventSource> source = churn(options.churn_event_count);
  TraceCompiler compiler;
  std::vector<ReplayStep> steps;
  const std::uint64_t begin_ns = thread_cpu_ns();
  for (auto events = source->next(); !events.empty(); events = source->next()) {
    steps.clear();
    compiler.compile(events, steps);
    replayer.reserve_slots(compiler.slot_count());
    replayer.run(steps);
  }
  const Replayed replayed{.event_count = replayer.counts().event_count,
                          .cpu_ns = thread_cpu_ns() - begin_ns};
  report.churn_event_count = replayed.event_count;
  report.churn_generate_ns_per_event = ns_per_event(replayed);
}

void add_line(std::string& text, const char* format, double value, bool met, const char* target) {
  char line[160];
  std::snprintf(line, sizeof line, format, value);
  text += line;
  text += std::string("  (target ") + target + (met ? ", met)\n" : ", MISSED)\n");
}

void add_line(std::string& text, const char* format, double value) {
  char line[160];
  std::snprintf(line, sizeof line, format, value);
  text += std::string(line) + "\n";
}

void add_rate(std::string& text, const char* format, const std::optional<double>& rate,
              const std::string& reason) {
  if (rate) {
    add_line(text, format, *rate, *rate >= 5, "at least 5");
  } else {
    text += "caching, recorder off:                no figure: " + reason + "\n";
  }
}

}  // namespace

SpeedReport measure_speed(const SpeedOptions& options) {
  SpeedReport report;
  Bench bench;
  bench.clock.finish_calibration();
  report.clock_pair_ns = bench.clock.pair_cost_ns();
  measure_long_trace(options, report);
  measure_null(bench, options, report);
  measure_caching(bench, options, report);
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    report.resident_bytes_peak = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  }
  return report;
}

std::string to_text(const SpeedReport& report) {
  std::string text;
  add_line(text, "clock, empty timed region:            %8.1f ns", report.clock_pair_ns);
  add_line(text, "null, recorded latency, median:       %8.1f ns", report.null_latency_ns_p50,
           report.null_latency_ns_p50 <= 25, "at most 25");
  add_line(text, "null, recorded latency, P99:          %8.1f ns", report.null_latency_ns_p99,
           report.null_latency_ns_p99 <= 60, "at most 60");
  add_line(text, "null, whole loop, recorder on, mean:  %8.1f ns/event",
           report.null_cpu_ns_per_event);
  add_line(text, "null, whole loop, recorder off, mean: %8.1f ns/event",
           report.null_bare_cpu_ns_per_event);
  add_rate(text, "caching, recorder off, churn:         %8.2f million events/s",
           report.caching_churn_million_events_per_s, report.caching_reason);
  add_rate(text, "caching, recorder off, recorded:      %8.2f million events/s",
           report.caching_recorded_million_events_per_s, report.caching_reason);
  add_line(text, "long trace, events:                   %8.0f",
           static_cast<double>(report.churn_event_count));
  add_line(text, "long trace, generate and replay:      %8.1f ns/event",
           report.churn_generate_ns_per_event);
  const double resident_mib = static_cast<double>(report.resident_bytes_peak) / (1024.0 * 1024.0);
  add_line(text, "resident memory, peak:                %8.1f MiB", resident_mib,
           resident_mib < 128, "below 128");
  return text;
}

}  // namespace allocmark

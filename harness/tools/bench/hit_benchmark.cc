// hits/...: what a request costs that the cache serves. The trace is replayed pass by pass; where
// c10, PyTorch's own allocator, is there, it takes turns with the allocator that is measured.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/measure/clock.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/bench/benchmarks.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

// Device calls that give or take memory cost more than this in the model; what c10 asks on every
// request (cudaGetDevice) and the polling of events cost less.
constexpr std::uint64_t kHitModelledNsMax = 1000;
constexpr int kWarmRoundCount = 3;
constexpr int kRoundCount = 40;
constexpr double kTargetC10Ratio = 0.5;

struct HitCell {
  BenchSide side;
  std::optional<BenchSide> c10;
  std::string workload;
};

class Side {
 public:
  Side(const BenchSide& side, std::span<const ReplayStep> steps,
       std::span<const cudaStream_t> streams)
      : backend_(side.entry->make({.conf = side.conf})), steps_(steps), streams_(streams) {
    std::uint32_t slot_count = 0;
    for (const ReplayStep& step : steps) slot_count = std::max(slot_count, step.slot + 1);
    blocks_.resize(slot_count);
  }

  // One pass with a clock around every call.
  void run_timed(const TickClock& clock, const SimcuThreadClock& simcu) {
    for (const ReplayStep& step : steps_) {
      const std::uint64_t modelled_ns = simcu.modelled_ns;
      const std::uint64_t begin = clock.now_ticks();
      run_step(step);
      const std::uint64_t end = clock.now_ticks();
      if (simcu.modelled_ns - modelled_ns > kHitModelledNsMax) continue;
      auto& ticks = step.kind == EventKind::Alloc ? allocate_ticks_ : free_ticks_;
      ticks.push_back(end - begin);
    }
    release_live();
  }

  // The same without. Processor time: a pass takes milliseconds, in which a loaded machine lets
  // other programs run.
  void run_bare() {
    const std::uint64_t begin_ns = thread_cpu_ns();
    for (const ReplayStep& step : steps_) run_step(step);
    best_ns_ = std::min(best_ns_, thread_cpu_ns() - begin_ns);
  }

  void release_live() {
    for (Held& held : blocks_) {
      if (held.pointer != nullptr) backend_->deallocate(held.pointer, held.size_bytes, held.stream);
      held = {};
    }
  }

  void forget_samples() {
    allocate_ticks_.clear();
    free_ticks_.clear();
    best_ns_ = std::numeric_limits<std::uint64_t>::max();
  }

  // Per allocation with its free: the best pass.
  [[nodiscard]] double pair_ns() const {
    return static_cast<double>(best_ns_) / (static_cast<double>(steps_.size()) / 2);
  }

  // Nearest-rank quantiles over all calls that needed nothing from the device, without the clock's
  // own cost.
  void set_counters(benchmark::UserCounters& counters, const std::string& prefix,
                    const TickClock& clock) {
    counters[prefix + "pair_ns"] = pair_ns();
    const double pair_cost_ns = clock.pair_cost_ns();
    for (const auto& [name, ticks] :
         {std::pair{"allocate_ns", &allocate_ticks_}, std::pair{"free_ns", &free_ticks_}}) {
      if (ticks->empty()) continue;
      for (const int percent : {50, 99}) {
        const double ns = quantile(*ticks, percent / 100.0) * clock.scale().ns_per_tick();
        counters[fmt::format("{}{}_p{}", prefix, name, percent)] = std::max(0.0, ns - pair_cost_ns);
      }
    }
  }

 private:
  struct Held {
    void* pointer = nullptr;
    std::uint64_t size_bytes = 0;
    cudaStream_t stream = nullptr;
  };

  static double quantile(std::vector<std::uint64_t>& ticks, double share) {
    const auto rank =
        static_cast<std::ptrdiff_t>(std::ceil(share * static_cast<double>(ticks.size())));
    const auto at = ticks.begin() + std::max<std::ptrdiff_t>(rank, 1) - 1;
    std::nth_element(ticks.begin(), at, ticks.end());
    return static_cast<double>(*at);
  }

  void run_step(const ReplayStep& step) {
    Held& held = blocks_[step.slot];
    if (step.kind == EventKind::Alloc) {
      held.stream = streams_[step.stream];
      held.size_bytes = step.size_bytes;
      held.pointer = backend_->allocate(step.size_bytes, held.stream).pointer;
    } else {
      backend_->deallocate(held.pointer, held.size_bytes, held.stream);
      held.pointer = nullptr;
    }
  }

  std::unique_ptr<Backend> backend_;
  std::span<const ReplayStep> steps_;
  std::span<const cudaStream_t> streams_;
  std::vector<Held> blocks_;
  std::vector<std::uint64_t> allocate_ticks_, free_ticks_;
  std::uint64_t best_ns_ = std::numeric_limits<std::uint64_t>::max();
};

std::vector<ReplayStep> steps_of(PreparedTrace& trace) {
  std::vector<ReplayStep> steps;
  trace.for_each_step_batch([&](const TraceBatch& batch) {
    for (const ReplayStep& step : batch.steps) {
      if (step.kind == EventKind::Alloc || step.kind == EventKind::Free) steps.push_back(step);
    }
    return true;
  });
  return steps;
}

void set_ratios(benchmark::UserCounters& counters) {
  for (const char* name :
       {"pair_ns", "allocate_ns_p50", "allocate_ns_p99", "free_ns_p50", "free_ns_p99"}) {
    const double c10_ns = counters[std::string("c10_") + name];
    counters[std::string("c10_ratio_") + name] = c10_ns > 0 ? counters[name] / c10_ns : 0;
  }
  counters["target_c10_ratio"] = kTargetC10Ratio;
}

void hits(benchmark::State& state, const HitCell& cell) {
  PreparedTrace trace(open_workload(cell.workload, 0));
  const std::vector<ReplayStep> steps = steps_of(trace);
  const StreamSet streams(trace.facts().stream_count, /*has_device=*/true);
  TickClock clock;
  clock.finish_calibration();
  const SimcuThreadClock& simcu = *SimcuApi::find().thread_clock();
  Side own(cell.side, steps, streams.all());
  std::optional<Side> c10;
  if (cell.c10) c10.emplace(*cell.c10, steps, streams.all());
  const auto all_but_own_bare = [&] {
    own.release_live();
    if (c10) {
      c10->run_timed(clock, simcu);
      c10->run_bare();
      c10->release_live();
    }
    own.run_timed(clock, simcu);
  };
  for (int round = 0; round < kWarmRoundCount; ++round) {
    all_but_own_bare();
    own.run_bare();
  }
  own.forget_samples();
  if (c10) c10->forget_samples();
  for (auto _ : state) {
    state.PauseTiming();
    all_but_own_bare();
    state.ResumeTiming();
    own.run_bare();
  }
  own.release_live();
  own.set_counters(state.counters, "", clock);
  if (c10) {
    c10->set_counters(state.counters, "c10_", clock);
    set_ratios(state.counters);
  }
}

}  // namespace

void register_hit_benchmarks(const BenchOptions& options) {
  if (!SimcuApi::find().present) return;
  const std::vector<std::string> workloads =
      options.workloads.empty() ? std::vector<std::string>{"gpt2_train_amp"} : options.workloads;
  const std::vector<BenchSide> sides = bench_sides(options, {"caching", "torch"});
  const auto is_c10 = [](const BenchSide& side) { return side.entry->name.starts_with("torch"); };
  for (const BenchSide& side : sides) {
    if (!side.entry->capabilities.real_memory) continue;
    // Both under one config string.
    const auto c10 = std::ranges::find_if(
        sides, [&](const BenchSide& other) { return is_c10(other) && other.conf == side.conf; });
    for (const std::string& workload : workloads) {
      const HitCell cell{
          .side = side,
          .c10 = is_c10(side) || c10 == sides.end() ? std::nullopt : std::optional(*c10),
          .workload = workload};
      add_benchmark(fmt::format("hits/{}/{}", name_of(side), workload),
                    [cell](benchmark::State& state) { hits(state, cell); })
          ->Unit(benchmark::kMillisecond)
          ->Iterations(kRoundCount);
    }
  }
}

}  // namespace allocmark

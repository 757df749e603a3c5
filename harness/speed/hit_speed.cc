#include "harness/speed/hit_speed.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/measure/clock.h"
#include "harness/replay/prepared_trace.h"
#include "harness/replay/replay.h"
#include "harness/replay/simcu_api.h"
#include "workloads/open_workload.h"

namespace allocmark {
namespace {

// Device calls that give or take memory cost more than this in the model; what c10 asks on every
// request (cudaGetDevice) and the polling of events cost less.
constexpr std::uint64_t kHitModelledNsMax = 1000;
constexpr std::uint64_t kWarmRoundCount = 3;

struct Samples {
  std::vector<std::uint32_t> allocate;
  std::vector<std::uint32_t> deallocate;
};

class Side {
 public:
  Side(const char* name, const HitOptions& options, std::uint32_t slot_count)
      : backend_(find_backend(name).make({.conf = options.conf})), blocks_(slot_count) {}

  // One pass with a clock around every call.
  void run_timed(std::span<const ReplayStep> steps, std::span<const cudaStream_t> streams,
                 const TickClock& clock, const SimcuThreadClock& simcu) {
    for (const ReplayStep& step : steps) {
      const std::uint64_t modelled_ns = simcu.modelled_ns;
      const std::uint64_t begin = clock.now_ticks();
      run_step(step, streams);
      const std::uint64_t end = clock.now_ticks();
      if (simcu.modelled_ns - modelled_ns > kHitModelledNsMax) continue;
      const auto ticks = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(end - begin, std::numeric_limits<std::uint32_t>::max()));
      if (step.kind == EventKind::Alloc) samples_.allocate.push_back(ticks);
      if (step.kind == EventKind::Free) samples_.deallocate.push_back(ticks);
    }
  }

  // The same without; returns the processor time of the whole. A pass takes milliseconds, in which
  // a loaded machine lets other programs run.
  [[nodiscard]] std::uint64_t run_bare(std::span<const ReplayStep> steps,
                                       std::span<const cudaStream_t> streams) {
    const std::uint64_t begin_ns = thread_cpu_ns();
    for (const ReplayStep& step : steps) run_step(step, streams);
    return thread_cpu_ns() - begin_ns;
  }

  void release_live() {
    for (Held& held : blocks_) {
      if (held.pointer != nullptr) backend_->deallocate(held.pointer, held.size_bytes, held.stream);
      held = {};
    }
  }

  void forget_samples() { samples_ = {}; }
  [[nodiscard]] HitFigures figures(const TickClock& clock);
  void note_bare(std::uint64_t ns) { bare_ns_ = std::min(bare_ns_, ns); }
  [[nodiscard]] std::uint64_t bare_ns() const { return bare_ns_; }

 private:
  struct Held {
    void* pointer = nullptr;
    std::uint64_t size_bytes = 0;
    cudaStream_t stream = nullptr;
  };

  void run_step(const ReplayStep& step, std::span<const cudaStream_t> streams) {
    Held& held = blocks_[step.slot];
    if (step.kind == EventKind::Alloc) {
      held.stream = streams[step.stream];
      held.size_bytes = step.size_bytes;
      held.pointer = backend_->allocate(step.size_bytes, held.stream).pointer;
    } else if (step.kind == EventKind::Free) {
      backend_->deallocate(held.pointer, held.size_bytes, held.stream);
      held.pointer = nullptr;
    }
  }

  std::unique_ptr<Backend> backend_;
  std::vector<Held> blocks_;
  Samples samples_;
  std::uint64_t bare_ns_ = std::numeric_limits<std::uint64_t>::max();
};

double quantile_ns(std::vector<std::uint32_t>& ticks, double share, const TickClock& clock) {
  if (ticks.empty()) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(ticks.size())));
  const auto at = ticks.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(ticks.begin(), at, ticks.end());
  const double ns = static_cast<double>(*at) * clock.scale().ns_per_tick();
  return std::max(0.0, ns - clock.pair_cost_ns());
}

HitFigures Side::figures(const TickClock& clock) {
  return {.allocate_ns_p50 = quantile_ns(samples_.allocate, 0.5, clock),
          .allocate_ns_p99 = quantile_ns(samples_.allocate, 0.99, clock),
          .deallocate_ns_p50 = quantile_ns(samples_.deallocate, 0.5, clock),
          .deallocate_ns_p99 = quantile_ns(samples_.deallocate, 0.99, clock),
          .pair_ns_mean = 0,
          .allocate_count = samples_.allocate.size(),
          .deallocate_count = samples_.deallocate.size()};
}

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

std::uint32_t slot_count_of(std::span<const ReplayStep> steps) {
  std::uint32_t count = 0;
  for (const ReplayStep& step : steps) count = std::max(count, step.slot + 1);
  return count;
}

void measure(const HitOptions& options, HitComparison& comparison) {
  PreparedTrace trace(open_workload(options.workload, 0));
  const std::vector<ReplayStep> steps = steps_of(trace);
  const StreamSet streams(trace.facts().stream_count, /*has_device=*/true);
  TickClock clock;
  clock.finish_calibration();
  const SimcuThreadClock& simcu = *SimcuApi::find().thread_clock();
  Side caching("caching", options, slot_count_of(steps));
  Side torch("torch", options, slot_count_of(steps));
  for (std::uint64_t round = 0; round < kWarmRoundCount + options.round_count; ++round) {
    for (Side* const side : {&caching, &torch}) {
      if (round == kWarmRoundCount) side->forget_samples();
      side->run_timed(steps, streams.all(), clock, simcu);
      side->release_live();
      side->note_bare(side->run_bare(steps, streams.all()));
      side->release_live();
    }
  }
  const double pairs = static_cast<double>(steps.size()) / 2;
  comparison.caching = caching.figures(clock);
  comparison.torch = torch.figures(clock);
  comparison.caching.pair_ns_mean = static_cast<double>(caching.bare_ns()) / pairs;
  comparison.torch.pair_ns_mean = static_cast<double>(torch.bare_ns()) / pairs;
}

void add_row(std::string& text, const char* name, double caching_ns, double torch_ns) {
  char line[160];
  const double ratio = torch_ns > 0 ? caching_ns / torch_ns : 0;
  std::snprintf(line, sizeof line, "%-38s%8.1f ns, c10 %8.1f ns: %.2f  (target at most 0.50, %s)\n",
                name, caching_ns, torch_ns, ratio, ratio <= 0.5 ? "met" : "MISSED");
  text += line;
}

}  // namespace

HitComparison measure_hits(const HitOptions& options) {
  HitComparison comparison{.workload = options.workload, .reason = {}, .caching = {}, .torch = {}};
  comparison.reason = find_backend("torch").unavailable_reason();
  if (!comparison.reason.empty()) return comparison;
  if (!SimcuApi::find().present) {
    comparison.reason = "no simulated device";
    return comparison;
  }
  try {
    measure(options, comparison);
  } catch (const Error& error) {
    comparison.reason = error.what();
  }
  return comparison;
}

std::string to_text(const HitComparison& comparison) {
  if (!comparison.reason.empty())
    return "caching beside c10:                   no figure: " + comparison.reason + "\n";
  const HitFigures& caching = comparison.caching;
  const HitFigures& torch = comparison.torch;
  std::string text;
  add_row(text, "cache-hit allocate, median: caching", caching.allocate_ns_p50,
          torch.allocate_ns_p50);
  add_row(text, "cache-hit allocate, P99: caching", caching.allocate_ns_p99, torch.allocate_ns_p99);
  add_row(text, "free, median: caching", caching.deallocate_ns_p50, torch.deallocate_ns_p50);
  add_row(text, "free, P99: caching", caching.deallocate_ns_p99, torch.deallocate_ns_p99);
  add_row(text, "allocate + free, mean: caching", caching.pair_ns_mean, torch.pair_ns_mean);
  return text;
}

}  // namespace allocmark

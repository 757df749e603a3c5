// The timed passes of a cell. This file times.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "harness/cell/cell_run.h"
#include "harness/cell/null_overhead.h"
#include "results/compare/width.h"

namespace allocmark {

namespace {

// Steps kept per pass for the median of the allocator's time; later ones are left out.
constexpr std::uint64_t kStepCountMax = 65536;

}  // namespace

void CellRun::timed_passes() {
  clock_.finish_calibration();
  result_.cold_ns = static_cast<double>(cold_ticks_) * clock_.scale().ns_per_tick();
  if (!clock_.uses_counter()) {
    warn_once(
        "the processor's time-stamp counter is not invariant: latencies come from "
        "steady_clock, and host time contains the simulator's own");
  }
  const RecorderOptions options{
      .scale = clock_.scale(),
      .has_driver_model = simcu_.present,
      .step_count_max = std::min(trace_->facts().mark_count + 1, kStepCountMax)};
  Recorder pass(options);
  Recorder sum(options);
  std::optional<RequestClock> requests;
  // Processes beside each other wait for themselves only, which one clock cannot follow.
  if (trace_->facts().request_mark_count > 0 && trace_->jobs().empty()) {
    requests.emplace(trace_->facts().stream_count);
  }
  StepClock steps(clock_, simcu_clock(), options.step_count_max);
  if (spec_.quiet_cpu) quiet_cpu_.emplace();
  const WidthRule rule{.width_max = spec_.width_max,
                       .pass_count_min = spec_.pass_count,
                       .pass_count_max = std::max(spec_.pass_count, spec_.pass_count_max)};
  const std::uint32_t pass_count = rule.width_max > 0 ? rule.pass_count_max : spec_.pass_count;
  for (std::uint32_t i = 0; turns_ != nullptr ? turns_->wait() : i < pass_count; ++i) {
    pass.clear();
    timed_pass(pass, {.steps = &steps, .requests = requests ? &*requests : nullptr}, i);
    sum.merge(pass);
    ++result_.pass_count;
    if (rule.width_max > 0 && narrow_enough(result_, rule, clock_.step_ns())) break;
  }
  fill_latencies(result_, sum, driver_ns_by_pass_);
  if (requests && spec_.record) result_.requests = requests->latency();
  fill_program(steps);
  const LatencySummary overhead =
      null_overhead(trace_->prefix(kNullPrefixCountMax),
                    NullOverheadSetup{.clock = &clock_,
                                      .simcu_clock = simcu_clock(),
                                      .stream_count = trace_->facts().stream_count});
  result_.harness_overhead_ns_p50 = overhead.p50_ns;
}

void CellRun::timed_pass(Recorder& recorder, const PassClocks& clocks, std::uint32_t pass_index) {
  if (clocks.requests != nullptr) clocks.requests->begin_pass();
  clocks.steps->begin_pass();
  if (quiet_cpu_) quiet_cpu_->move();
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  Replayer replayer(ReplaySetup{.backend = backend.get(),
                                .processes = processes_of(backend.get()),
                                .work = work_.get(),
                                .streams = streams_->all(),
                                .on_oom = on_oom_,
                                .recorder = spec_.record ? &recorder : nullptr,
                                .steps = clocks.steps,
                                .requests = clocks.requests,
                                .clock = &clock_,
                                .simcu_clock = simcu_clock()});
  std::uint64_t wall_ticks = 0;
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    clocks.steps->resume();
    const std::uint64_t begin_ticks = clock_.now_ticks();
    replayer.run(batch.steps);
    wall_ticks += clock_.now_ticks() - begin_ticks;
    clocks.steps->pause();
    return !replayer.counts().stopped;
  });
  clocks.steps->resume();
  work_->synchronize();
  clocks.steps->pause();
  clocks.steps->end_pass();
  recorder.end_pass();

  ++result_.trial_count;
  if (replayer.counts().oom_count > 0) ++result_.trial_oom_count;
  if (replayer.counts().oom_count != result_.oom_count ||
      replayer.placement_hash() != placement_hash_) {
    warn_once("not deterministic: timed pass " + std::to_string(pass_index + 1) +
              " had other placements or failures than the checked pass");
  }
  const std::uint64_t residue_bytes = end_pass(replayer, backend, bytes_before);

  const LatencySummary allocate = recorder.latency(Operation::Allocate).total;
  const LatencySummary deallocate = recorder.latency(Operation::Deallocate).total;
  result_.passes.push_back(PassSummary{
      .allocate_p50_ns = allocate.p50_ns,
      .allocate_p99_ns = allocate.p99_ns,
      .deallocate_p50_ns = deallocate.p50_ns,
      .wall_ns = static_cast<double>(wall_ticks) * clock_.scale().ns_per_tick(),
      .allocate_buckets = recorder.buckets(Operation::Allocate),
      .deallocate_buckets = recorder.buckets(Operation::Deallocate),
      .allocator_ns_per_step = recorder.step_ns_median(),
      .request_latency_ns_p99 =
          clocks.requests != nullptr && spec_.record ? clocks.requests->pass_latency_ns_p99() : 0,
      .allocate_own_buckets = recorder.own_buckets(Operation::Allocate),
      .deallocate_own_buckets = recorder.own_buckets(Operation::Deallocate),
      .oom_count = replayer.counts().oom_count,
      .residue_bytes = residue_bytes});
  driver_ns_by_pass_.push_back(recorder.driver_ns_total());
}

void CellRun::fill_program(const StepClock& steps) {
  result_.step_ns_p50 = steps.step_ns_median();
  result_.program_ns = steps.program_ns_median();
  if (trace_->facts().work_count == 0 || !has_device_) return;
  result_.program_ideal_ns = null_program_ns(*trace_, {.clock = &clock_,
                                                       .simcu_clock = simcu_clock(),
                                                       .work = work_.get(),
                                                       .streams = streams_->all(),
                                                       .pass_count = spec_.pass_count});
}

}  // namespace allocmark

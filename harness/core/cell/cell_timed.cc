// The timed passes of a cell. This file times.
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/process_memory.h"
#include "harness/core/cell/cell_run.h"
#include "harness/core/cell/null_overhead.h"
#include "harness/core/check/pass_places.h"
#include "results/cell_words.h"
#include "results/compare/width.h"

namespace allocmark {

namespace {

// Steps kept per pass for the median of the allocator's time; later ones are left out.
constexpr std::uint64_t kStepCountMax = 65536;

double clock_ns(clockid_t clock) {
  timespec now{};
  (void)clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// The processor's time that threads beside the calling one take, and the time that goes by.
class OtherThreads {
 public:
  [[nodiscard]] std::uint64_t ns_per_s() const {
    const double others_ns = others_now_ns() - begin_others_ns_;
    const double wall_ns = clock_ns(CLOCK_MONOTONIC) - begin_wall_ns_;
    return others_ns <= 0 || wall_ns <= 0 ? 0
                                          : static_cast<std::uint64_t>(others_ns / wall_ns * 1e9);
  }

 private:
  static double others_now_ns() {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
  }
  double begin_others_ns_ = others_now_ns();
  double begin_wall_ns_ = clock_ns(CLOCK_MONOTONIC);
};

}  // namespace

void CellRun::timed_passes() {
  clock_.finish_calibration();
  clock_ns_ = clock_.pair_cost_ns();
  clock_step_ns_ = clock_.step_ns();
  result_.cold_ns = static_cast<double>(cold_ticks_) * clock_.scale().ns_per_tick();
  if (!clock_.uses_counter()) {
    warn_once(
        fmt::format("the processor's {}: latencies come from steady_clock, and host time "
                    "contains the simulator's own",
                    kCounterVaries));
  }
  timing_.emplace(RecorderOptions{.scale = clock_.scale(),
                                  .has_driver_model = simcu_.present,
                                  .step_count_max = step_count_max()},
                  clock_, simcu_clock(), trace_->facts().preamble_label);
  timing_->pass.follow(usual_ ? &*usual_ : nullptr);
  // Processes beside each other wait for themselves only, which one clock cannot follow.
  if (trace_->facts().request_mark_count > 0 && trace_->jobs().empty()) {
    timing_->requests.emplace(trace_->facts().stream_count);
  }
  if (spec_.quiet_cpu) quiet_cpu_.emplace();
  const WidthRule rule{.width_max = spec_.width_max,
                       .pass_count_min = spec_.pass_count,
                       .pass_count_max = std::max(spec_.pass_count, spec_.pass_count_max)};
  const std::uint32_t pass_count = rule.width_max > 0 ? rule.pass_count_max : spec_.pass_count;
  const OtherThreads others;
  for (std::uint32_t i = 0; next_pass(i, pass_count); ++i) {
    timed_pass(i);
    if (over_) return;
    ++result_.pass_count;
    if (rule.width_max > 0 && narrow_enough(result_, rule, clock_.step_ns())) break;
  }
  result_.other_threads_ns_per_s = others.ns_per_s();
  const std::uint64_t resident_bytes = process_memory(getpid()).resident_bytes;
  result_.host_taken_bytes = resident_bytes - std::min(resident_bytes, resident_bytes_before_);
  fill_timed();
  fill_ideal_program();
  if (!spec_.times_host) return;
  const LatencySummary overhead =
      null_overhead(trace_->prefix(kNullPrefixCountMax),
                    NullOverheadSetup{.clock = &clock_,
                                      .simcu_clock = simcu_clock(),
                                      .stream_count = trace_->facts().stream_count});
  result_.harness_overhead_ns_p50 = overhead.p50_ns;
}

bool CellRun::next_pass(std::uint32_t done_count, std::uint32_t pass_count) {
  if (turns_ == nullptr) return done_count < pass_count;
  if (!spec_.in_rounds) return turns_->wait();
  if (done_count == 0 || done_count >= pass_count) return done_count < pass_count;
  if (on_part_ && std::has_single_bit(done_count)) {
    fill_timed();
    result_.passes_to_come = pass_count - done_count;
    on_part_(result_);
    result_.passes_to_come = 0;
  }
  return turns_->wait();
}

void CellRun::fill_timed() {
  fill_latencies(result_, timing_->sum, driver_ns_by_pass_);
  fill_settled(result_, settle(parts_by_pass_, {.scale = clock_.scale(),
                                                .host_scale = least_disturbed_scale(),
                                                .step_count_max = step_count_max()}));
  if (timing_->requests && spec_.record) result_.requests = timing_->requests->latency();
  result_.step_ns_p50 = timing_->steps.step_ns_median();
  result_.step_ns_mean = timing_->steps.step_ns_mean();
  result_.program_ns = timing_->steps.program_ns_median();
}

std::uint64_t CellRun::step_count_max() const {
  return std::min(trace_->facts().mark_count + 1, kStepCountMax);
}

// That of the fastest reference, since settled passes have the times of the fastest parts.
HostScale CellRun::least_disturbed_scale() const {
  const std::vector<HostScale>& scales = timing_->sum.host_scales();
  if (scales.empty()) return {.factor = 0};
  return *std::ranges::max_element(scales, {}, &HostScale::factor);
}

// Beside each pass, since what disturbs the one disturbs the other.
double CellRun::measure_reference() {
  if (!spec_.times_host) return 0;
  const double reference_ns = reference_.measure_ns();
  const HostTarget& target = spec_.host_target;
  if (target.reference_ns > 0) {
    timing_->pass.scale_host({.factor = target.reference_ns / reference_ns,
                              .clock_ns = clock_ns_,
                              .target_clock_ns = target.clock_ns > 0 ? target.clock_ns : clock_ns_,
                              .clock_step_ns = clock_step_ns_});
  }
  return reference_ns;
}

void CellRun::timed_pass(std::uint32_t pass_index) {
  Recorder& recorder = timing_->pass;
  StepClock& steps = timing_->steps;
  RequestClock* const requests = timing_->requests ? &*timing_->requests : nullptr;
  recorder.clear();
  if (requests != nullptr) requests->begin_pass();
  steps.begin_pass();
  const std::chrono::duration<double> since_began = std::chrono::steady_clock::now() - began_;
  if (quiet_cpu_) quiet_cpu_->move();
  PassSummary summary{.begin_s = since_began.count(), .host_reference_ns = measure_reference()};
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  Replayer replayer(ReplaySetup{.backend = backend.get(),
                                .processes = processes_of(backend.get()),
                                .work = work_.get(),
                                .streams = streams_->all(),
                                .on_oom = on_oom_,
                                .side = entry_->capabilities.side,
                                .recorder = spec_.record ? &recorder : nullptr,
                                .steps = &steps,
                                .requests = requests,
                                .clock = &clock_,
                                .simcu_clock = simcu_clock(),
                                .places = fresh_places()});
  std::uint64_t wall_ticks = 0;
  const double begin_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    steps.resume();
    const std::uint64_t begin_ticks = clock_.now_ticks();
    replayer.run(batch.steps);
    wall_ticks += clock_.now_ticks() - begin_ticks;
    steps.pause();
    return !replayer.counts().stopped;
  });
  steps.resume();
  work_->synchronize();
  steps.pause();
  summary.thread_cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin_cpu_ns;
  steps.end_pass(replayer.counts().allocate_count);
  recorder.end_pass();
  if (usual_) usual_->end_pass();

  ++result_.trial_count;
  if (replayer.counts().oom_count > 0) ++result_.trial_oom_count;
  if (const auto broken = broken_since_check(replayer, pass_index))
    return end_broken(*broken, std::move(backend));
  summary.oom_count = replayer.counts().oom_count;
  summary.residue_bytes = end_pass(replayer, backend, bytes_before);
  summary.step_ns_mean = static_cast<double>(steps.pass_step_ns_mean());
  summary.wall_ns = static_cast<double>(wall_ticks) * clock_.scale().ns_per_tick();
  keep_pass(std::move(summary));
}

std::optional<std::string> CellRun::broken_since_check(const Replayer& replayer,
                                                       std::uint32_t pass_index) {
  const bool differs =
      replayer.counts().oom_count != result_.idle_oom_count.value_or(result_.oom_count) ||
      replayer.placement_hash() != timed_placement_hash_;
  if (differs) {
    warn_once(
        fmt::format("{}: timed pass {} had other placements or failures than the checked "
                    "pass",
                    kNotDeterministic, pass_index + 1));
  }
  // Where places are those of the checked pass, they have been looked at; on the host they differ.
  if (!differs && !is_on_host()) return std::nullopt;
  std::optional<std::string> broken = broken_place();
  if (broken) *broken += ", in timed pass " + std::to_string(pass_index + 1);
  return broken;
}

std::vector<void*>* CellRun::fresh_places() {
  const TraceFacts& facts = trace_->facts();
  const std::uint64_t count = facts.allocate_count + facts.failed_before_count;
  if (!has_device_ || count > PassPlaces::kCountMax) return nullptr;
  places_.clear();
  places_.reserve(count);
  return &places_;
}

std::optional<std::string> CellRun::broken_place() {
  if (places_.empty()) return std::nullopt;
  const BackendCapabilities claims = entry_->capabilities_for(spec_.key.conf_text());
  PassPlaces pass(places_, claims.alignment_bytes);
  trace_->for_each_batch([&](const TraceBatch& batch) { return pass.run(batch); });
  return pass.broken();
}

// What the pass recorded, and its part of the sum.
void CellRun::keep_pass(PassSummary summary) {
  const Recorder& recorder = timing_->pass;
  const LatencySummary allocate = recorder.latency(Operation::Allocate).total;
  summary.allocate_p50_ns = allocate.p50_ns;
  summary.allocate_p99_ns = allocate.p99_ns;
  summary.deallocate_p50_ns = recorder.latency(Operation::Deallocate).total.p50_ns;
  summary.allocate_buckets = recorder.buckets(Operation::Allocate);
  summary.deallocate_buckets = recorder.buckets(Operation::Deallocate);
  summary.allocate_own_buckets = recorder.own_buckets(Operation::Allocate);
  summary.deallocate_own_buckets = recorder.own_buckets(Operation::Deallocate);
  summary.allocator_ns_per_step = recorder.step_ns_median();
  if (timing_->requests && spec_.record) {
    summary.request_latency_ns_p99 = timing_->requests->pass_latency_ns_p99();
  }
  result_.passes.push_back(std::move(summary));
  driver_ns_by_pass_.push_back(recorder.driver_ns_total());
  if (usual_ && spec_.record) parts_by_pass_.push_back(recorder.parts());
  timing_->sum.merge(recorder);
}

void CellRun::fill_ideal_program() {
  if (trace_->facts().work_count == 0 || !has_device_) return;
  const NullProgram ideal = null_program(*trace_, {.clock = &clock_,
                                                   .simcu_clock = simcu_clock(),
                                                   .work = work_.get(),
                                                   .streams = streams_->all(),
                                                   .pass_count = spec_.pass_count});
  result_.program_ideal_ns = ideal.program_ns;
  result_.step_ideal_ns_mean = ideal.step_ns_mean;
}

}  // namespace allocmark

// The course of one cell: prepare, check, time, report.
#include "harness/cell/cell.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/output_file.h"
#include "harness/cell/cell_result.h"
#include "harness/cell/null_overhead.h"
#include "harness/check/placement_recorder.h"
#include "harness/check/timeline.h"
#include "harness/check/verify.h"
#include "harness/measure/clock.h"
#include "harness/measure/quiet_cpu.h"
#include "harness/measure/recorder.h"
#include "harness/measure/request_clock.h"
#include "harness/measure/step_clock.h"
#include "harness/replay/ballast.h"
#include "harness/replay/capacity.h"
#include "harness/replay/device_work.h"
#include "harness/replay/kernel_source.h"
#include "harness/replay/prepared_trace.h"
#include "harness/replay/process_backends.h"
#include "harness/replay/replay.h"
#include "harness/replay/simcu_api.h"
#include "results/compare/width.h"
#include "workloads/trace/source.h"

namespace allocmark {

namespace {

// Steps kept per pass for the median of the allocator's time; later ones are left out.
constexpr std::uint64_t kStepCountMax = 65536;

class CellRun {
 public:
  CellRun(const CellSpec& spec, PassTurns* turns, CellResult& result)
      : spec_(spec), turns_(turns), result_(result) {}

  void run();

 private:
  void check_key();
  void prepare_trace();
  void prepare_device();
  void enforce_capacity();
  void verify_pass();
  void write_timeline(const Timeline& timeline);
  void timed_passes();
  // What follows a timed pass besides the recorder's samples.
  struct PassClocks {
    StepClock* steps = nullptr;
    RequestClock* requests = nullptr;  // null where the trace tells of no requests
  };
  void timed_pass(Recorder& recorder, const PassClocks& clocks, std::uint32_t pass_index);
  void fill_program(const StepClock& steps);
  [[nodiscard]] const SimcuThreadClock* simcu_clock() const {
    return simcu_.present ? simcu_.thread_clock() : nullptr;
  }
  // Waits for all work, gives live blocks back, destroys the backend and notes what the device did
  // not get back, which it returns.
  template <typename Player>
  std::uint64_t end_pass(Player& player, std::unique_ptr<Backend>& backend,
                         std::uint64_t bytes_before);
  [[nodiscard]] std::unique_ptr<Backend> make_backend() const;
  // The same instance, where the trace has several processes; else null.
  [[nodiscard]] static ProcessBackends* processes_of(Backend* backend) {
    return dynamic_cast<ProcessBackends*>(backend);
  }
  [[nodiscard]] std::uint64_t used_bytes() const {
    return has_device_ ? device_used_bytes(simcu_) : 0;
  }
  void warn_once(const std::string& text) { allocmark::warn_once(result_, text); }

  const CellSpec& spec_;
  PassTurns* const turns_;  // null where the cell runs by itself
  CellResult& result_;
  TickClock clock_;
  SimcuApi simcu_;
  const BackendEntry* entry_ = nullptr;
  OomPolicy on_oom_ = OomPolicy::Skip;
  Capacity capacity_;
  bool has_device_ = false;
  bool over_ = false;  // the cell ends early, and the status says why
  std::uint64_t memory_limit_bytes_ = 0;
  std::uint64_t available_bytes_ = 0;  // what the backend can have, for OOM causes
  std::optional<PreparedTrace> trace_;
  std::optional<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  Ballast ballast_;
  std::optional<QuietCpu> quiet_cpu_;
  std::vector<std::uint64_t> driver_ns_by_pass_;
  std::uint64_t placement_hash_ = 0;
  std::uint64_t cold_ticks_ = 0;  // of the backend's first calls
};

void CellRun::run() {
  check_key();
  if (over_) return;
  prepare_trace();
  if (over_) return;
  prepare_device();
  // The partner has its context by then too, so that both see the same memory free.
  if (turns_ != nullptr) (void)turns_->wait();
  enforce_capacity();
  if (over_) return;
  verify_pass();
  if (over_) return;
  timed_passes();
}

void CellRun::check_key() {
  entry_ = &find_backend(spec_.key.allocator);
  on_oom_ = parse_oom_policy(spec_.key.on_oom);
  capacity_ = parse_capacity(spec_.key.capacity);
  has_device_ = entry_->capabilities.real_memory;
  if (const auto error = entry_->check_conf(spec_.key.conf_text())) throw UsageError(*error);
  simcu_ = SimcuApi::find();
  const std::string_view device = spec_.key.device;
  if (has_device_ && !device.empty() && device.starts_with("sim:") != simcu_.present) {
    throw EnvironmentError(ErrorText{
        .what = "this process does not have the CUDA runtime that the device needs",
        .where = "device " + spec_.key.device,
        .wanted = simcu_.present ? "the machine's libcudart" : "simcuda in front of the process",
        .got = simcu_.present ? "simcuda" : "the machine's libcudart",
        .next = "start the cell with \"allocmark run\", which sets LD_LIBRARY_PATH"});
  }
  const std::string reason = entry_->unavailable_reason();
  if (reason.empty()) return;
  result_.status = CellStatus::Skipped;
  result_.reason = spec_.key.allocator + " cannot run here: " + reason;
  over_ = true;
}

void CellRun::prepare_trace() {
  trace_.emplace(open_workload_with_kernels(spec_.key.workload_text(), spec_.key.seed));
  const TraceFacts& facts = trace_->facts();
  result_.trace_name = trace_->name();
  result_.trace_hash = hash_text(trace_->hash());
  result_.event_count = facts.event_count;
  result_.allocate_count = facts.allocate_count;
  result_.deallocate_count = facts.deallocate_count;
  result_.requested_bytes_peak = facts.requested_bytes_peak;
  if (facts.work_count > 0) result_.kernel_ns_total = facts.kernel_ns_total;
  if (facts.event_count == 0) warn_once("the trace has no events");
  if (trace_->jobs().empty() || !has_device_) return;
  result_.reason = processes_refusal(spec_.key.allocator, spec_.key.conf_text());
  if (result_.reason.empty()) return;
  result_.status = CellStatus::Skipped;
  over_ = true;
}

void CellRun::prepare_device() {
  // The runtime takes memory for its context at the first call; that is done before anything is
  // counted.
  if (has_device_) ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  streams_.emplace(trace_->facts().stream_count, has_device_);
  work_ = has_device_ ? make_device_work(simcu_) : make_no_device_work();
}

void CellRun::enforce_capacity() {
  if (!has_device_) {
    if (!capacity_.unlimited()) {
      warn_once(spec_.key.allocator + " has no device memory: the capacity has no effect");
    }
    return;
  }
  available_bytes_ = device_free_bytes();
  if (capacity_.unlimited()) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    result_.capacity_bytes = total_bytes;
    return;
  }
  const std::uint64_t capacity_bytes =
      capacity_.resolve_bytes(trace_->facts().requested_bytes_peak);
  result_.capacity_bytes = capacity_bytes;
  if (capacity_.enforcement == CapacityEnforcement::Ballast) {
    ballast_ = Ballast(capacity_bytes);
    available_bytes_ = device_free_bytes();
    return;
  }
  if (!entry_->capabilities.honours_memory_limit) {
    result_.status = CellStatus::Skipped;
    result_.reason = spec_.key.allocator +
                     " has no memory limit of its own; leave @limit away to limit the device";
    over_ = true;
    return;
  }
  memory_limit_bytes_ = capacity_bytes;
  available_bytes_ = std::min(available_bytes_, capacity_bytes);
}

std::unique_ptr<Backend> CellRun::make_backend() const {
  const BackendOptions options{.conf = spec_.key.conf_text(),
                               .memory_limit_bytes = memory_limit_bytes_};
  if (trace_->jobs().empty() || !has_device_) return entry_->make(options);
  return std::make_unique<ProcessBackends>(*entry_, options, trace_->jobs(), streams_->all());
}

template <typename Player>
std::uint64_t CellRun::end_pass(Player& player, std::unique_ptr<Backend>& backend,
                                std::uint64_t bytes_before) {
  work_->synchronize();
  player.release_live();
  backend.reset();
  const std::uint64_t bytes_after = used_bytes();
  if (bytes_after <= bytes_before) return 0;
  result_.residue_bytes = std::max(result_.residue_bytes, bytes_after - bytes_before);
  std::string text = "the backend was destroyed and the device did not get all of its memory back";
  if (entry_->residue_hint != nullptr) text += entry_->residue_hint(spec_.key.conf_text());
  warn_once(text);
  return bytes_after - bytes_before;
}

void CellRun::write_timeline(const Timeline& timeline) {
  if (!spec_.timeline_path.empty()) {
    write_file(spec_.timeline_path, timeline.to_json(spec_.key.id()));
  }
}

void CellRun::verify_pass() {
  std::optional<OutputFile> placements;
  if (!spec_.placements_path.empty()) placements.emplace(spec_.placements_path);
  Timeline timeline(trace_->facts().event_count);
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  std::optional<PlacementRecorder> recorder;
  if (placements) {
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (has_device_) ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
    recorder.emplace(*placements, *backend,
                     PlacementHeader{.device_total_bytes = total_bytes,
                                     .limit_bytes = memory_limit_bytes_,
                                     .allocator = spec_.key.allocator,
                                     .conf = spec_.key.conf_text(),
                                     .release = entry_->release});
  }
  Verifier verifier(VerifySetup{.replay = {.backend = backend.get(),
                                           .processes = processes_of(backend.get()),
                                           .work = work_.get(),
                                           .streams = streams_->all(),
                                           .on_oom = on_oom_},
                                .capabilities = entry_->capabilities_for(spec_.key.conf_text()),
                                .simcu = simcu_,
                                .facts = trace_->facts(),
                                .level = spec_.verify,
                                .capacity_bytes = available_bytes_,
                                .device_bytes_before = bytes_before,
                                .placements = recorder ? &*recorder : nullptr,
                                .timeline = spec_.timeline_path.empty() ? nullptr : &timeline,
                                .clock = &clock_});
  trace_->for_each_batch([&](const TraceBatch& batch) { return verifier.run(batch); });
  verifier.finish();
  const VerifyReport report = verifier.report();
  placement_hash_ = report.placement_hash;
  cold_ticks_ = report.cold_ticks;
  fill_from(result_, report);
  fill_stats(result_, *backend);
  if (const ProcessBackends* processes = processes_of(backend.get())) {
    const std::string failures = processes->failures();
    if (!failures.empty()) warn_once("out of memory by process: " + failures);
  }
  if (recorder) recorder->end(report.counts.event_count);
  if (placements) placements->finish();
  write_timeline(timeline);
  if (report.broken_rule) {
    result_.status = CellStatus::Failed;
    result_.reason = *report.broken_rule;
    over_ = true;
    // Live blocks are not given back, by us or by the backend's destructor: after a broken rule
    // that could do anything. The process ends soon.
    (void)backend.release();
    return;
  }
  (void)end_pass(verifier, backend, bytes_before);
}

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

void fail(CellResult& result, const std::string& reason) {
  result.status = CellStatus::Failed;
  result.reason = reason;
}

// A call that simcuda lacks failed, and on a GPU it would not have.
void warn_of_unimplemented(CellResult& result, std::uint64_t count_before) {
  if (!SimcuApi::find().present) return;
  const UnimplementedCalls calls = unimplemented_calls();
  result.unimplemented_call_count = calls.count - count_before;
  if (calls.count == count_before) return;
  warn_once(result, std::to_string(calls.count - count_before) +
                        " calls of CUDA functions that simcuda lacks failed, which a GPU would "
                        "have served: " +
                        calls.names);
}

}  // namespace

CellResult run_cell(const CellSpec& spec, PassTurns* turns) {
  const auto begin = std::chrono::steady_clock::now();
  CellResult result;
  result.key = spec.key;
  const std::uint64_t unimplemented_before = unimplemented_calls().count;
  try {
    CellRun(spec, turns, result).run();
  } catch (const WriteError&) {
    throw;  // a run whose files cannot be written ends
  } catch (const Error& error) {
    fail(result, error.what());
  } catch (const std::bad_alloc&) {
    fail(result, "the host has not enough memory for this cell");
  } catch (const std::exception& error) {
    fail(result, std::string("internal error: ") + error.what() + "; please report it");
  }
  warn_of_unimplemented(result, unimplemented_before);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace allocmark

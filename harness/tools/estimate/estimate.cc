// See estimate.h.
#include "harness/tools/estimate/estimate.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/replay/assumed_work.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/open_job.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/process_backends.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/job/job.h"
#include "workloads/import/recording.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {
namespace {

// Reads the events once more, for what is live. What failed and was done without does not count.
void read_account(const EstimateSpec& spec, PreparedTrace* trace, JobEstimate* estimate) {
  MemoryAccount account(spec.logits);
  PhaseNames names(spec.marks_forward);
  std::size_t phase = 0;
  trace->for_each_batch([&](const TraceBatch& batch) {
    for (std::size_t at = 0; at < batch.events.size(); ++at) {
      const Event& event = batch.events[at];
      if (batch.steps[at].failed_before()) continue;
      account.add(event);
      if (event.kind == EventKind::Alloc) ++estimate->request_count;
      if (event.kind != EventKind::Mark) continue;
      const std::string& label = trace->labels()[event.id];
      if (mark_class_of(label) == MarkClass::ManagedMemory) {
        estimate->managed_bytes += event.size_bytes;
      }
      phase = names.after(label, phase);
      account.enter(phase, names.names()[phase] == "optimizer");
    }
    return true;
  });
  estimate->live_bytes = account.peak_bytes();
  estimate->peak_phase = account.peak_phase();
  estimate->phases = account.phases(names.names());
}

// What torch.cuda.max_memory_allocated() returns then; none of several processes.
std::optional<std::uint64_t> allocated_peak(const Backend& backend) {
  const std::vector<NamedCounter> counters = backend.counters();
  const auto peak = std::ranges::find(counters, "allocated_bytes.all.peak", &NamedCounter::name);
  if (peak == counters.end()) return std::nullopt;
  return static_cast<std::uint64_t>(peak->value);
}

class Estimator {
 public:
  Estimator(const EstimateSpec& spec, Recording job)
      : spec_(spec), entry_(find_backend(spec.allocator)), simcu_(SimcuApi::find()) {
    if (!simcu_.present) {
      throw EnvironmentError({.what = "an estimate replays on a simulated device only",
                              .where = "estimate",
                              .wanted = "simcuda in front of the process",
                              .got = "the machine's libcudart",
                              .next = "start it with 'allocmark estimate'"});
    }
    check_serves_device(entry_, "estimate");
    estimate_.notes = std::move(job.notes);
    trace_.emplace(std::move(job.events));
    read_account(spec, &*trace_, &estimate_);
    estimate_.pytorch = trace_->header().pytorch;
  }

  JobEstimate run();

 private:
  struct Pass {
    std::uint64_t oom_count = 0;
    std::uint64_t reserved_bytes = 0;
    std::optional<std::uint64_t> allocated_bytes = {};
    std::vector<std::uint64_t> by_phase;
    CaptureFacts captures = {};
  };

  void estimate_setting(SettingEstimate* setting);
  [[nodiscard]] std::unique_ptr<Backend> make_backend(const std::string& conf) const;
  [[nodiscard]] Pass run_pass(const std::string& conf);
  // What the device was used at most since the last call, beyond `before_bytes`.
  [[nodiscard]] std::uint64_t take_extreme(std::uint64_t before_bytes) const;

  const EstimateSpec& spec_;
  const BackendEntry& entry_;
  SimcuApi simcu_;
  std::optional<PreparedTrace> trace_;
  std::optional<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  JobEstimate estimate_;
};

JobEstimate Estimator::run() {
  ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  streams_.emplace(trace_->facts().stream_count, true);
  work_ = make_device_work(simcu_);
  for (const std::string& conf : spec_.confs) {
    estimate_.settings.push_back({.conf = conf});
    estimate_setting(&estimate_.settings.back());
  }
  return std::move(estimate_);
}

void Estimator::estimate_setting(SettingEstimate* setting) {
  if (!trace_->jobs().empty()) {
    setting->failure = processes_refusal(spec_.allocator, setting->conf);
    if (!setting->failure.empty()) return;
  }
  try {
    const Pass plenty = run_pass(setting->conf);
    if (plenty.oom_count > 0) {
      setting->failure = "more than the simulated device has";
      return;
    }
    setting->reserved_bytes = plenty.reserved_bytes;
    setting->allocated_bytes = plenty.allocated_bytes;
    setting->reserved_by_phase = plenty.by_phase;
    setting->captures = plenty.captures;
    const std::uint64_t usable_bytes = usable_device_bytes(simcu_.present);
    for (const std::uint64_t room_bytes : spec_.rooms) {
      const std::uint64_t left_bytes = room_bytes / kDevicePageBytes * kDevicePageBytes;
      if (left_bytes < estimate_.live_bytes || left_bytes >= plenty.reserved_bytes) continue;
      if (left_bytes >= usable_bytes) continue;
      const Ballast ballast(left_bytes);
      setting->rooms.push_back(
          {.room_bytes = room_bytes, .oom_count = run_pass(setting->conf).oom_count});
    }
  } catch (const EnvironmentError& error) {
    work_->synchronize();
    setting->failure = error.what();
  }
}

std::uint64_t Estimator::take_extreme(std::uint64_t before_bytes) const {
  std::uint64_t used_bytes_max = 0;
  std::uint64_t refused_bytes_min = 0;
  simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
  return used_bytes_max - std::min(used_bytes_max, before_bytes);
}

std::unique_ptr<Backend> Estimator::make_backend(const std::string& conf) const {
  if (trace_->jobs().empty()) return entry_.make({.conf = conf});
  return std::make_unique<ProcessBackends>(entry_, BackendOptions{.conf = conf}, trace_->jobs(),
                                           streams_->all());
}

Estimator::Pass Estimator::run_pass(const std::string& conf) {
  const std::uint64_t before_bytes = simcu_.used_bytes();
  (void)take_extreme(before_bytes);
  const std::unique_ptr<Backend> backend = make_backend(conf);
  Replayer replayer(
      {.backend = backend.get(),
       .processes = dynamic_cast<ProcessBackends*>(backend.get()),
       .work = work_.get(),
       .streams = streams_->all(),
       .on_oom = OomPolicy::Stop,
       .assumed_kernel_ns = assumed_kernel_ns(*trace_, spec_.workload, spec_.allocator, conf)});
  PhaseNames names(spec_.marks_forward);
  std::size_t phase = 0;
  Pass pass = {.by_phase = std::vector<std::uint64_t>(estimate_.phases.size())};
  const auto end_phase = [&] {
    const std::uint64_t used_bytes = take_extreme(before_bytes);
    pass.by_phase[phase] = std::max(pass.by_phase[phase], used_bytes);
    pass.reserved_bytes = std::max(pass.reserved_bytes, used_bytes);
  };
  CaptureMeter captures;
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    std::size_t begin = 0;
    const auto run_to = [&](std::size_t end) {
      replayer.run(batch.steps.subspan(begin, end - begin));
      begin = end;
    };
    for (std::size_t at = 0; at < batch.steps.size() && !replayer.counts().stopped; ++at) {
      const ReplayStep& step = batch.steps[at];
      if (step.failed_before()) {
        run_to(at);
        ++begin;
        continue;
      }
      captures.count(step);
      if (captures.begins_at(step)) {
        run_to(at);
        captures.begin(step, simcu_.used_bytes());
      } else if (captures.ends_at(step)) {
        run_to(at + 1);
        captures.end(simcu_.used_bytes());
      } else if (step.kind == EventKind::Mark) {
        const std::size_t next = names.after(trace_->labels()[step.slot], phase);
        if (next == phase) continue;
        run_to(at + 1);
        end_phase();
        phase = next;
      }
    }
    if (!replayer.counts().stopped) run_to(batch.steps.size());
    return !replayer.counts().stopped;
  });
  pass.captures = captures.facts();
  work_->synchronize();
  end_phase();
  pass.allocated_bytes = allocated_peak(*backend);
  pass.oom_count = replayer.counts().oom_count;
  replayer.release_live();
  return pass;
}

constexpr Job<EstimateSpec, JobEstimate> kEstimate{
    .name = "estimate",
    .what = "the estimate",
    .run = [](const EstimateSpec& spec,
              const Tell<JobEstimate>& tell) { tell(estimate_job(spec)); },
    .opens_device = false};

}  // namespace

JobEstimate estimate_job(const EstimateSpec& spec) {
  return Estimator(spec, open_job(spec.workload, spec.seed)).run();
}

JobEstimate estimate_in_child(const EstimateSpec& spec, const std::string& device) {
  return ask_job(kEstimate, spec,
                 {.device = device, .environment = {kWarmHostCaches, {"SIMCUDA_COSTS", "mean"}}});
}

extern const JobEntry kEstimateJob;
constinit const JobEntry kEstimateJob = job_entry<kEstimate>();

}  // namespace allocmark

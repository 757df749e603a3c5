// Passes without a clock, and the least capacity of each setting.
#include "harness/core/search/search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/cuda/cuda_driver.h"
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
#include "harness/core/search/capacities.h"
#include "harness/core/search/driver_tape.h"
#include "harness/core/search/driver_time.h"
#include "harness/job/child_process.h"
#include "workloads/import/recording.h"

namespace allocmark {
namespace {

Ballast hold_back(std::uint64_t capacity_bytes, std::uint64_t usable_bytes) {
  return capacity_bytes == usable_bytes ? Ballast() : Ballast(capacity_bytes);
}

// Whether the event is for the allocator alone, and the device learns of it by nothing else.
bool is_for_allocator(EventKind kind) {
  switch (kind) {
    case EventKind::Kernel:
    case EventKind::Busy:
    case EventKind::Sync:
    case EventKind::Host:
    case EventKind::HostAlloc:
    case EventKind::HostFree:
    case EventKind::HostRecord:
      return false;
    default:
      return true;
  }
}

class Search {
 public:
  Search(const SearchSpec& spec, PreparedTrace trace, std::vector<std::string> notes,
         const std::function<void(const SearchResult&)>& on_setting)
      : spec_(spec),
        on_setting_(on_setting),
        entry_(find_backend(spec.allocator)),
        simcu_(SimcuApi::find()),
        trace_(std::move(trace)) {
    check_serves_device(entry_, "this search");
    result_.notes = std::move(notes);
  }

  SearchResult run();

 private:
  struct Pass {
    std::uint64_t oom_count = 0;
    SettledRange range = {};  // of capacities with which the same would have happened
    StepSums sums = {};
  };
  // A pass whose allocator asks its device through a tape.
  struct Taped {
    std::uint64_t before_bytes = 0;  // in use when it began
    std::optional<CudaDriver> device = std::nullopt;
    std::optional<DriverTape> tape = std::nullopt;
    TapedSteps steps = {};
    std::size_t steps_end = 0;  // calls behind this one give back what is live
    bool answers = false;       // the device has seen some of its calls already
    bool has_waited = false;    // and waited, behind all steps
  };

  void check() const;
  void search_setting(SettingFacts* facts);
  void add_capacity_facts(SettingFacts* facts);
  void add_least(SettingFacts* facts);
  [[nodiscard]] std::unique_ptr<Backend> make_backend(const std::string& conf,
                                                      caching::Driver* device) const;
  [[nodiscard]] Pass run_pass(const std::string& conf, OomPolicy on_oom, std::uint64_t kernel_ns,
                              Taped* taped = nullptr);
  [[nodiscard]] Pass run_twice(const std::string& conf);
  [[nodiscard]] Pass run_again(const std::string& conf, const Pass& first, Taped* taped);
  [[nodiscard]] std::uint64_t begin_pass() const;
  [[nodiscard]] SettledRange end_pass(std::uint64_t before_bytes) const;
  // Of the kernel after every request, which is assumed where the job tells of none; 0: none is.
  [[nodiscard]] std::uint64_t assumed_for(const std::string& conf) const {
    return assumed_kernel_ns(trace_, spec_.workload, spec_.allocator, conf);
  }

  const SearchSpec& spec_;
  const std::function<void(const SearchResult&)>& on_setting_;
  const BackendEntry& entry_;
  SimcuApi simcu_;
  PreparedTrace trace_;
  std::optional<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  bool all_for_allocator_ = false;  // every event
  SearchResult result_;
};

void Search::check() const {
  if (!simcu_.present) {
    throw EnvironmentError({.what = "settings are searched on a simulated device only",
                            .where = "search",
                            .wanted = "simcuda in front of the process",
                            .got = "the machine's libcudart",
                            .next = "start it with 'allocmark advise'"});
  }
}

SearchResult Search::run() {
  check();
  ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  streams_.emplace(trace_.facts().stream_count, true);
  work_ = make_device_work(simcu_);
  const TraceFacts& facts = trace_.facts();
  result_.event_count = facts.event_count;
  result_.allocate_count = facts.allocate_count;
  result_.step_count = facts.mark_count;
  result_.stream_count = facts.stream_count;
  result_.needed_bytes = facts.requested_bytes_peak;
  result_.usable_bytes = usable_device_bytes(simcu_.present);
  result_.trace_hash = trace_.hash();
  result_.pytorch = trace_.header().pytorch;
  result_.forbids = trace_.header().forbids;
  result_.capacity_bytes = result_.usable_bytes;
  all_for_allocator_ = trace_.jobs().empty() && trace_.is_kept();
  if (all_for_allocator_) {
    trace_.for_each_step_batch([&](const TraceBatch& batch) {
      all_for_allocator_ = std::ranges::all_of(batch.steps, is_for_allocator, &ReplayStep::kind);
      return all_for_allocator_;
    });
  }
  const Capacity capacity = parse_capacity(spec_.capacity);
  if (!capacity.unlimited()) {
    result_.capacity_bytes = capacity.resolve_bytes(facts.requested_bytes_peak);
  }
  std::vector<SettingFacts> settings;
  for (const std::string& conf : spec_.confs) {
    result_.settings.assign(1, {.conf = conf});
    search_setting(&result_.settings.back());
    on_setting_(result_);
    settings.push_back(result_.settings.back());
  }
  result_.settings = std::move(settings);
  return std::move(result_);
}

// What a setting itself makes fail, as with address space, is a fact about it.
void Search::search_setting(SettingFacts* facts) {
  if (!trace_.jobs().empty()) {
    facts->failure = processes_refusal(spec_.allocator, facts->conf);
    facts->oom_count = facts->failure.empty() ? 0 : result_.allocate_count;
    if (!facts->failure.empty()) return;
  }
  try {
    if (!spec_.capacity.empty()) add_capacity_facts(facts);
    if (spec_.finds_least) add_least(facts);
  } catch (const EnvironmentError& error) {
    work_->synchronize();
    *facts = {.conf = facts->conf,
              .oom_count = result_.allocate_count,
              .pass_count = facts->pass_count,
              .failure = error.what()};
  }
}

// The first pass warms what the ballast's probe left cold, as a cell's checked pass does.
void Search::add_capacity_facts(SettingFacts* facts) {
  const Ballast ballast = hold_back(result_.capacity_bytes, result_.usable_bytes);
  const std::uint64_t kernel_ns = assumed_for(facts->conf);
  Pass pass;
  if (kernel_ns == 0 && all_for_allocator_) {
    pass = run_twice(facts->conf);
  } else {
    (void)run_pass(facts->conf, OomPolicy::Skip, kernel_ns);
    pass = run_pass(facts->conf, OomPolicy::Skip, kernel_ns);
  }
  facts->oom_count = pass.oom_count;
  facts->peak_bytes = pass.range.low_bytes;
  if (kernel_ns > 0) {
    pass = run_pass(facts->conf, OomPolicy::Skip, 0);
    facts->idle_oom_count = pass.oom_count;
    ++facts->pass_count;
  }
  facts->driver_ns_per_step = pass.sums.step_ns_median();
  facts->calls_per_step = pass.sums.step_calls_median();
  facts->driver_ns = pass.sums.total_ns();
  facts->pass_count += 2;
}

void Search::add_least(SettingFacts* facts) {
  const auto probe = [&](std::uint64_t capacity_bytes) {
    const Ballast ballast = hold_back(capacity_bytes, result_.usable_bytes);
    const Pass pass = run_pass(facts->conf, OomPolicy::Stop, assumed_for(facts->conf));
    ++facts->pass_count;
    return Probe{.serves = pass.oom_count == 0,
                 .range = entry_.capabilities.limit_is_share_of_free
                              ? SettledRange{.low_bytes = capacity_bytes,
                                             .high_bytes = capacity_bytes + kDevicePageBytes}
                              : pass.range};
  };
  const LeastCapacity least = find_least_capacity({.needed_bytes = result_.needed_bytes,
                                                   .usable_bytes = result_.usable_bytes,
                                                   .settle_count_max = spec_.settle_count_max},
                                                  probe);
  facts->least_bytes = least.least_bytes;
  facts->unsettled_bytes = least.unsettled_bytes;
  facts->serves_below_bytes = least.serves_below_bytes;
}

// An instance for each process of the job.
std::unique_ptr<Backend> Search::make_backend(const std::string& conf,
                                              caching::Driver* device) const {
  if (trace_.jobs().empty()) return entry_.make({.conf = conf, .device = device});
  return std::make_unique<ProcessBackends>(entry_, BackendOptions{.conf = conf}, trace_.jobs(),
                                           streams_->all());
}

// Bytes in use as a pass begins.
std::uint64_t Search::begin_pass() const {
  std::uint64_t used_bytes_max = 0, refused_bytes_min = 0;
  simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
  return simcu_.used_bytes();
}

SettledRange Search::end_pass(std::uint64_t before_bytes) const {
  std::uint64_t used_bytes_max = 0, refused_bytes_min = 0;
  simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
  const bool refused = refused_bytes_min != ~std::uint64_t{0};
  return {.low_bytes = used_bytes_max - before_bytes,
          .high_bytes = refused ? refused_bytes_min - before_bytes : refused_bytes_min};
}

Search::Pass Search::run_pass(const std::string& conf, OomPolicy on_oom, std::uint64_t kernel_ns,
                              Taped* taped) {
  const bool answers = taped != nullptr && taped->answers;
  const std::uint64_t before_bytes = answers ? taped->before_bytes : begin_pass();
  DriverTape* const tape = taped == nullptr ? nullptr : &*taped->tape;
  std::unique_ptr<Backend> inner = make_backend(conf, tape);
  DriverTimeBackend backend =
      tape == nullptr ? DriverTimeBackend(*inner, *simcu_.thread_clock())
                      : DriverTimeBackend(*inner, *tape, answers ? nullptr : &taped->steps);
  Replayer replayer({.backend = &backend,
                     .processes = dynamic_cast<ProcessBackends*>(inner.get()),
                     .work = work_.get(),
                     .streams = streams_->all(),
                     .on_oom = on_oom,
                     .assumed_kernel_ns = kernel_ns});
  trace_.for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    run_by_steps(batch.steps, &replayer, &backend);
    return !replayer.counts().stopped;
  });
  if (taped != nullptr && !answers) taped->steps_end = tape->call_count();
  if (taped == nullptr || !taped->has_waited) work_->synchronize();
  backend.end_pass();
  replayer.release_live();
  inner.reset();
  return {.oom_count = replayer.counts().oom_count,
          .range = end_pass(before_bytes),
          .sums = backend.sums()};
}

// The second of two passes.
Search::Pass Search::run_twice(const std::string& conf) {
  Taped taped;
  taped.device.emplace(nullptr);
  taped.tape.emplace(*taped.device, *simcu_.thread_clock());
  const Pass first = run_pass(conf, OomPolicy::Skip, 0, &taped);
  if (!taped.tape->is_whole()) return run_pass(conf, OomPolicy::Skip, 0);
  return run_again(conf, first, &taped);
}

// The pass once more: without its allocator, as long as the device's answers are the same.
Search::Pass Search::run_again(const std::string& conf, const Pass& first, Taped* taped) {
  taped->before_bytes = begin_pass();
  taped->device.emplace(nullptr);
  DriverTape& tape = *taped->tape;
  bool is_same = tape.make_again(*taped->device, taped->steps_end);
  if (is_same) {
    work_->synchronize();
    taped->has_waited = true;
    is_same = tape.make_again(*taped->device, tape.call_count());
  }
  if (is_same) {
    return {.oom_count = first.oom_count,
            .range = end_pass(taped->before_bytes),
            .sums = taped->steps.sums(tape)};
  }
  tape.answer_from_tape(*taped->device);
  taped->answers = true;
  return run_pass(conf, OomPolicy::Skip, 0, taped);
}

}  // namespace

SearchResult search_settings(const SearchSpec& spec,
                             const std::function<void(const SearchResult&)>& on_setting) {
  if (spec.handed)
    return Search(spec, PreparedTrace(kHandedFd, *spec.handed), {}, on_setting).run();
  Recording job = open_job(spec.workload, spec.seed);
  return Search(spec, PreparedTrace(std::move(job.events)), std::move(job.notes), on_setting).run();
}

}  // namespace allocmark

// Passes without a clock, and the least capacity of each setting.
#include "harness/core/search/search.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "harness/core/replay/assumed_work.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/process_backends.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/core/search/capacities.h"
#include "harness/core/search/driver_time.h"
#include "harness/core/search/open_job.h"
#include "harness/job/child_process.h"
#include "workloads/import/recording.h"

namespace allocmark {
namespace {

Ballast hold_back(std::uint64_t capacity_bytes, std::uint64_t usable_bytes) {
  return capacity_bytes == usable_bytes ? Ballast() : Ballast(capacity_bytes);
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
    SettledRange range;  // of capacities with which the same would have happened
    double driver_ns_per_step = 0, calls_per_step = 0, driver_ns = 0;
  };

  void check() const;
  void search_setting(SettingFacts* facts);
  void add_capacity_facts(SettingFacts* facts);
  void add_least(SettingFacts* facts);
  [[nodiscard]] std::unique_ptr<Backend> make_backend(const std::string& conf) const;
  [[nodiscard]] Pass run_pass(const std::string& conf, OomPolicy on_oom, std::uint64_t kernel_ns);
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
  (void)run_pass(facts->conf, OomPolicy::Skip, kernel_ns);
  Pass pass = run_pass(facts->conf, OomPolicy::Skip, kernel_ns);
  facts->oom_count = pass.oom_count;
  facts->peak_bytes = pass.range.low_bytes;
  if (kernel_ns > 0) {
    pass = run_pass(facts->conf, OomPolicy::Skip, 0);
    facts->idle_oom_count = pass.oom_count;
    ++facts->pass_count;
  }
  facts->driver_ns_per_step = pass.driver_ns_per_step;
  facts->calls_per_step = pass.calls_per_step;
  facts->driver_ns = pass.driver_ns;
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
std::unique_ptr<Backend> Search::make_backend(const std::string& conf) const {
  if (trace_.jobs().empty()) return entry_.make({.conf = conf});
  return std::make_unique<ProcessBackends>(entry_, BackendOptions{.conf = conf}, trace_.jobs(),
                                           streams_->all());
}

Search::Pass Search::run_pass(const std::string& conf, OomPolicy on_oom, std::uint64_t kernel_ns) {
  std::uint64_t used_bytes_max = 0;
  std::uint64_t refused_bytes_min = 0;
  simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
  const std::uint64_t before_bytes = simcu_.used_bytes();
  std::unique_ptr<Backend> inner = make_backend(conf);
  DriverTimeBackend backend(*inner, *simcu_.thread_clock());
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
  work_->synchronize();
  backend.end_pass();
  replayer.release_live();
  inner.reset();
  simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
  const bool refused = refused_bytes_min != ~std::uint64_t{0};
  return {.oom_count = replayer.counts().oom_count,
          .range = {.low_bytes = used_bytes_max - before_bytes,
                    .high_bytes = refused ? refused_bytes_min - before_bytes : refused_bytes_min},
          .driver_ns_per_step = backend.step_ns_median(),
          .calls_per_step = backend.step_calls_median(),
          .driver_ns = backend.total_ns()};
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

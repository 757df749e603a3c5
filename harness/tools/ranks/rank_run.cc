// See rank_run.h.
#include "harness/tools/ranks/rank_run.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "allocators/backend/forwarding_backend.h"
#include "allocators/cuda/cuda_check.h"
#include "base/error.h"
#include "base/link_time.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "workloads/trace/request_marks.h"

namespace allocmark {
namespace {

void check(int error, const char* what, const SimcuApi& simcu) {
  if (error == 0) return;
  throw EnvironmentError({.what = std::string(what) + " failed",
                          .where = "simulated CUDA runtime",
                          .got = "error " + std::to_string(error) + " " + simcu.last_message(),
                          .next = "this is a fault of allocmark: please report it"});
}

// An allocator as one rank sees it: counts what is asked for and live, and tells of the first
// request that fails.
class WatchedBackend final : public ForwardingBackend {
 public:
  // `on_first_failure` gets the size that was asked for.
  WatchedBackend(Backend& inner, std::function<void(std::uint64_t)> on_first_failure)
      : ForwardingBackend(inner), on_first_failure_(std::move(on_first_failure)) {}

  [[nodiscard]] AllocateResult allocate(std::uint64_t size_bytes, cudaStream_t stream) override {
    const AllocateResult result = ForwardingBackend::allocate(size_bytes, stream);
    if (result.status == AllocateStatus::Ok) {
      live_bytes_ += size_bytes;
      live_bytes_peak_ = std::max(live_bytes_peak_, live_bytes_);
    } else if (!has_failed_) {
      has_failed_ = true;
      on_first_failure_(size_bytes);
    }
    return result;
  }
  void deallocate(void* pointer, std::uint64_t size_bytes, cudaStream_t stream) override {
    ForwardingBackend::deallocate(pointer, size_bytes, stream);
    live_bytes_ -= size_bytes;
  }

  [[nodiscard]] std::uint64_t live_bytes() const { return live_bytes_; }
  [[nodiscard]] std::uint64_t live_bytes_peak() const { return live_bytes_peak_; }

 private:
  std::function<void(std::uint64_t)> on_first_failure_;
  std::uint64_t live_bytes_ = 0, live_bytes_peak_ = 0;
  bool has_failed_ = false;
};

class RankRun {
 public:
  // Takes the device, makes streams, holds memory back. The calling thread is the rank's.
  explicit RankRun(const RankPlace& place)
      : place_(place), simcu_(SimcuApi::find()), own_(place.spec->ranks[place.index]) {
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(static_cast<int>(place.index)));
    ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
    streams_ = std::make_unique<StreamSet>(place.trace->facts.stream_count, true);
    work_ = make_device_work(simcu_);
    ALLOCMARK_CUDA_CHECK(cudaEventCreateWithFlags(&met_, cudaEventDisableTiming));
    const Capacity capacity = parse_capacity(own_.capacity);
    if (!capacity.unlimited()) {
      ballast_ = Ballast(capacity.resolve_bytes(place.trace->facts.requested_bytes_peak));
    }
    row_.number = own_.number;
    row_.workload = own_.workload;
    row_.capacity_bytes = device_free_bytes();
    backend_ = place.shared_backend;
    if (backend_ == nullptr) {
      own_backend_ = place.entry->make({.conf = place.spec->conf, .memory_limit_bytes = 0});
      backend_ = own_backend_.get();
    }
    watched_ = std::make_unique<WatchedBackend>(
        *backend_, [this](std::uint64_t asked_bytes) { note_failure(asked_bytes); });
    replayer_ =
        std::make_unique<Replayer>(ReplaySetup{.backend = watched_.get(),
                                               .work = work_.get(),
                                               .streams = streams_->all(),
                                               .on_oom = parse_oom_policy(place.spec->on_oom)});
    replayer_->reserve_slots(place.trace->slot_count);
  }
  RankRun(const RankRun&) = delete;

  RankRow run() {
    if (simcu_.present) {
      (void)used_bytes_max();  // what was most until now is forgotten
      used_bytes_begin_ = used_bytes_max();
    }
    work_->synchronize();  // nothing of before runs into the replay
    begin_ns_ = now_ns();
    const std::span<const ReplayStep> all(place_.trace->steps);
    std::size_t from = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind != EventKind::Mark) continue;
      // The mark itself does nothing there, but counts as an event.
      replayer_->run(all.subspan(from, i + 1 - from));
      from = i + 1;
      if (replayer_->counts().stopped) break;
      if (!is_meeting(all[i].mark_class())) {
        mark(all[i]);
      } else if (!meet(all[i])) {
        break;
      }
    }
    if (!row_.stall) replayer_->run(all.subspan(from));
    finish();
    return std::move(row_);
  }

 private:
  [[nodiscard]] std::uint64_t now_ns() const {
    return simcu_.present ? simcu_.thread_clock()->modelled_ns : 0;
  }

  // When all work that the rank has queued is done.
  [[nodiscard]] std::uint64_t work_end_ns() const {
    std::uint64_t end_ns = 0;
    check(simcu_.device_end(&end_ns), "simcu_device_end", simcu_);
    return std::max(end_ns, now_ns());
  }

  [[nodiscard]] std::uint64_t used_bytes_max() const {
    std::uint64_t used_bytes_max = 0;
    std::uint64_t refused_bytes_min = 0;
    simcu_.take_memory_extremes(&used_bytes_max, &refused_bytes_min);
    return used_bytes_max;
  }

  void mark(const ReplayStep& step) {
    if (step.mark_class() != MarkClass::Step) return;
    const std::string& label = place_.trace->labels[step.slot];
    step_ = label;
    note_reserved();
    if (label.starts_with("step")) row_.step_live_bytes.push_back(watched_->live_bytes());
  }

  void note_reserved() {
    if (simcu_.present) return;
    row_.device_bytes_peak =
        std::max(row_.device_bytes_peak, backend_->totals().reserved_bytes.value_or(0));
  }

  void note_failure(std::uint64_t asked_bytes) {
    note_reserved();
    row_.failure = RankFailure{.event_index = replayer_->counts().event_count - 1,
                               .asked_bytes = asked_bytes,
                               .free_bytes = device_free_bytes(),
                               .live_bytes = watched_->live_bytes(),
                               .reserved_bytes = backend_->totals().reserved_bytes.value_or(0),
                               .step = step_,
                               .time_ns = now_ns() - begin_ns_};
  }

  // All earlier work of the rank comes before a meeting, and all later work after it. False where
  // the others never come.
  [[nodiscard]] bool meet(const ReplayStep& step) {
    const std::string& label = place_.trace->labels[step.slot];
    const bool has_time = simcu_.present;
    const std::uint64_t here_ns = has_time ? work_end_ns() - begin_ns_ : 0;
    Arrival arrival{.rank = place_.index,
                    .name = std::string(meeting_name(label)),
                    .size_bytes = step.size_bytes,
                    .time_ns = here_ns};
    std::optional<Met> met;
    std::uint64_t end_ns = here_ns + link_ns(step.size_bytes);
    if (step.mark_class() == MarkClass::Send) {
      arrival.time_ns = end_ns;
      place_.schedule->send(arrival);
      met = Met{.start_ns = here_ns, .last_rank = place_.index};
    } else if (step.mark_class() == MarkClass::Receive) {
      met = place_.schedule->receive(arrival);
      if (met) end_ns = std::max(here_ns, met->start_ns);
    } else {
      met = place_.schedule->collective(arrival);
      if (met) end_ns = met->start_ns + link_ns(step.size_bytes);
    }
    if (!met) {
      note_stall(label, arrival);
      return false;
    }
    ++row_.meeting_count;
    if (!has_time) return true;
    std::vector<RankWaits>& waits = *place_.waits;
    if (met->start_ns > here_ns) waits[place_.index].wait_ns += met->start_ns - here_ns;
    if (step.mark_class() == MarkClass::Receive && met->start_ns > here_ns) {
      waits[met->last_rank].delay_ns += met->start_ns - here_ns;
    } else if (met->last_rank == place_.index) {
      waits[place_.index].delay_ns += met->alone_ns;
    }
    go_on_at(begin_ns_ + end_ns, step.stream);
    return true;
  }

  void note_stall(const std::string& label, const Arrival& arrival) {
    RankStall stall{
        .meeting = label, .number = 0, .step = step_, .since_ns = arrival.time_ns, .missing = {}};
    if (label.starts_with(mark_label(MarkClass::Collective))) {
      const Schedule::Missed missed = place_.schedule->missed_collective(arrival.name);
      stall.number = missed.number;
      for (const std::uint32_t index : missed.ranks) {
        stall.missing.push_back(place_.spec->ranks[index].number);
      }
    } else {
      stall.number = place_.schedule->received_count(arrival.name) + 1;
    }
    row_.stall = std::move(stall);
  }

  // The rank's work on its streams goes on at that time.
  void go_on_at(std::uint64_t time_ns, std::uint32_t stream) {
    const std::span<const cudaStream_t> streams = streams_->all();
    std::uint64_t end_ns = 0;
    check(simcu_.stream_end(streams[stream], &end_ns), "simcu_stream_end", simcu_);
    const std::uint64_t begins_ns = std::max(end_ns, now_ns());
    const std::uint64_t duration_ns = time_ns > begins_ns ? time_ns - begins_ns : 0;
    work_->launch(streams[stream], duration_ns);
    ALLOCMARK_CUDA_CHECK(cudaEventRecord(met_, streams[stream]));
    for (const cudaStream_t other : streams) {
      if (other != streams[stream]) ALLOCMARK_CUDA_CHECK(cudaStreamWaitEvent(other, met_, 0));
    }
  }

  void finish() {
    const ReplayCounts& counts = replayer_->counts();
    row_.request_count = counts.allocate_count;
    row_.oom_count = counts.oom_count;
    row_.requested_bytes_peak = watched_->live_bytes_peak();
    const MemoryStats stats = backend_->totals();
    row_.retry_count = stats.retry_count.value_or(0);
    note_reserved();
    if (simcu_.present) {
      row_.device_bytes_peak = used_bytes_max() - used_bytes_begin_;
      row_.end_ns = work_end_ns() - begin_ns_;
    }
    work_->synchronize();
    replayer_->release_live();
    watched_.reset();
    own_backend_.reset();
    ALLOCMARK_CUDA_CHECK(cudaEventDestroy(met_));
  }

  RankPlace place_;
  SimcuApi simcu_;
  const RankSpec& own_;
  std::unique_ptr<StreamSet> streams_;
  std::unique_ptr<DeviceWork> work_;
  cudaEvent_t met_ = nullptr;
  Ballast ballast_;
  std::unique_ptr<Backend> own_backend_;
  Backend* backend_ = nullptr;
  std::unique_ptr<WatchedBackend> watched_;
  std::unique_ptr<Replayer> replayer_;
  std::uint64_t begin_ns_ = 0;
  std::uint64_t used_bytes_begin_ = 0;
  std::string step_;
  RankRow row_;
};

}  // namespace

RankRow run_rank(const RankPlace& place) { return RankRun(place).run(); }

}  // namespace allocmark

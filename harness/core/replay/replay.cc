// The replay loop, once with and once without a clock around every call.
#include "harness/core/replay/replay.h"

#include <algorithm>
#include <string>
#include <vector>

#include "allocators/cuda/cuda_check.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/nearest.h"

namespace allocmark {

namespace {

// Gated kernels are told so often that the host goes on: a store to memory that the device reads
// costs more than one that it does not.
constexpr std::uint64_t kProgressPeriod = 16;

// The cost of one call, between construction and stop(). Without simcuda the driver's part stays 0:
// host time then contains it.
template <bool kTimed>
class CallTimer {
 public:
  explicit CallTimer(const ReplaySetup& setup) : setup_(setup) { start(); }

  // Once more, from zero.
  void start() {
    if constexpr (kTimed) {
      if (setup_.simcu_clock != nullptr) {
        driver_ns_ = setup_.simcu_clock->modelled_ns;
        simulator_ticks_ = setup_.simcu_clock->simulator_ticks;
      }
      begin_ticks_ = setup_.clock->now_ticks();
    }
  }

  void stop() {
    if constexpr (kTimed) {
      host_ticks_ = setup_.clock->now_ticks() - begin_ticks_;
      if (setup_.simcu_clock == nullptr) return;
      driver_ns_ = setup_.simcu_clock->modelled_ns - driver_ns_;
      simulator_ticks_ = setup_.simcu_clock->simulator_ticks - simulator_ticks_;
      // The simulator's ticks are those of the counter, and cannot be taken off another clock's.
      if (!setup_.clock->uses_counter()) return;
      host_ticks_ = host_ticks_ > simulator_ticks_ ? host_ticks_ - simulator_ticks_ : 0;
    }
  }

  [[nodiscard]] std::uint64_t host_ticks() const { return host_ticks_; }
  [[nodiscard]] std::uint64_t driver_ns() const { return driver_ns_; }

 private:
  const ReplaySetup& setup_;
  std::uint64_t begin_ticks_ = 0;
  std::uint64_t host_ticks_ = 0;
  std::uint64_t driver_ns_ = 0;
  std::uint64_t simulator_ticks_ = 0;
};

}  // namespace

std::vector<std::string> oom_policy_names() { return {"skip", "stop", "retry-after-sync"}; }

OomPolicy parse_oom_policy(std::string_view text) {
  const std::vector<std::string> names = oom_policy_names();
  const auto found = std::ranges::find(names, text);
  if (found != names.end()) return static_cast<OomPolicy>(found - names.begin());
  throw UsageError(ErrorText{.what = "unknown policy for out-of-memory",
                             .where = "--on-oom",
                             .wanted = "skip, stop or retry-after-sync",
                             .got = "\"" + std::string(text) + "\"",
                             .next = suggest(text, names)});
}

StreamSet::StreamSet(std::uint32_t stream_count, bool has_device)
    : streams_(stream_count, nullptr) {
  if (!has_device) return;
  for (std::uint32_t i = 1; i < stream_count; ++i) {
    ALLOCMARK_CUDA_CHECK(cudaStreamCreateWithFlags(&streams_[i], cudaStreamNonBlocking));
  }
}

StreamSet::~StreamSet() {
  for (cudaStream_t stream : streams_) {
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
  }
}

PoolAction pool_action_of(EventKind kind) {
  switch (kind) {
    case EventKind::PoolCreate:
      return PoolAction::Create;
    case EventKind::PoolBegin:
      return PoolAction::Begin;
    case EventKind::PoolEnd:
      return PoolAction::End;
    case EventKind::PoolRelease:
      return PoolAction::Release;
    case EventKind::PoolOnOom:
      return PoolAction::UseOnOom;
    case EventKind::PoolNoSplit:
      return PoolAction::NoSplit;
    case EventKind::CaptureBegin:
      return PoolAction::CaptureBegin;
    case EventKind::CaptureEnd:
      return PoolAction::CaptureEnd;
    default:
      return PoolAction::Trim;
  }
}

PoolCall pool_call_of(const ReplayStep& step, std::span<const cudaStream_t> streams) {
  return {.action = pool_action_of(step.kind),
          .pool = step.slot,
          .stream = streams[step.stream],
          .flag = step.size_bytes != 0};
}

void Replayer::reserve_slots(std::uint32_t slot_count) {
  if (blocks_.size() < slot_count) blocks_.resize(slot_count);
}

void Replayer::run(std::span<const ReplayStep> steps) {
  if (counts_.stopped) return;
  if (setup_.recorder != nullptr) {
    ALLOCMARK_ASSERT(setup_.clock != nullptr);
    run_steps<true>(steps);
  } else {
    run_steps<false>(steps);
  }
}

template <bool kTimed>
void Replayer::run_steps(std::span<const ReplayStep> steps) {
  for (const ReplayStep& step : steps) {
    ++counts_.event_count;
    if (counts_.event_count % kProgressPeriod == 0 && setup_.work != nullptr) {
      setup_.work->note_progress();
    }
    if (step.failed_before()) [[unlikely]] {
      ask_again(step);
    } else if (step.kind == EventKind::Alloc) {
      if (!allocate<kTimed>(step)) return;
      if (setup_.assumed_kernel_ns > 0) [[unlikely]] {
        setup_.work->launch(setup_.streams[step.stream], setup_.assumed_kernel_ns);
      }
    } else if (step.kind == EventKind::Free) {
      deallocate<kTimed>(step);
    } else {
      run_other<kTimed>(step);
      if (counts_.stopped) [[unlikely]]
        return;
    }
  }
}

template <bool kTimed>
inline bool Replayer::allocate(const ReplayStep& step) {
  const cudaStream_t stream = setup_.streams[step.stream];
  ++counts_.allocate_count;
  CallTimer<kTimed> timer(setup_);
  AllocateResult result = setup_.backend->allocate(step.size_bytes, stream);
  timer.stop();

  if (result.status != AllocateStatus::Ok && asks_after_sync()) [[unlikely]] {
    if constexpr (kTimed) setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
    setup_.work->synchronize();
    if constexpr (kTimed) follow_synchronize();
    ++counts_.asked_after_sync_count;
    timer.start();
    result = setup_.backend->allocate(step.size_bytes, stream);
    timer.stop();
    counts_.served_after_sync_count += result.status == AllocateStatus::Ok ? 1 : 0;
  }
  note_place(result);
  ReplayBlock& block = blocks_[step.slot];
  if (result.status == AllocateStatus::Ok) [[likely]] {
    block = ReplayBlock{.pointer = result.pointer,
                        .size_bytes = step.size_bytes,
                        .stream = step.stream,
                        .state = ReplayBlock::State::Live};
    placement_.add(result.pointer);
    if constexpr (kTimed) {
      setup_.recorder->add(Operation::Allocate, step.size_class, timer.host_ticks(),
                           timer.driver_ns());
    }
    return true;
  }
  block.state = ReplayBlock::State::Failed;
  placement_.add_failure();
  ++counts_.oom_count;
  if constexpr (kTimed) setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
  counts_.stopped = setup_.on_oom == OomPolicy::Stop;
  return !counts_.stopped;
}

// What failed when the trace was recorded has no latency of its own. Its free gives back what was
// served here.
void Replayer::ask_again(const ReplayStep& step) {
  ReplayBlock& block = blocks_[step.slot];
  const cudaStream_t stream = setup_.streams[step.stream];
  const auto ask = [&] {
    const AllocateResult result = setup_.backend->allocate(step.size_bytes, stream);
    note_place(result);
    const bool served = result.status == AllocateStatus::Ok;
    block = ReplayBlock{.pointer = result.pointer,
                        .size_bytes = step.size_bytes,
                        .stream = step.stream,
                        .state = served ? ReplayBlock::State::Live : ReplayBlock::State::Failed};
    served ? placement_.add(result.pointer) : placement_.add_failure();
    counts_.failed_again_count += served ? 0 : 1;
  };
  const auto give_back = [&] {
    if (block.state == ReplayBlock::State::Live) {
      setup_.backend->deallocate(block.pointer, step.size_bytes, stream);
    }
    block.state = ReplayBlock::State::Empty;
  };
  const bool is_free = step.kind == EventKind::Free;
  if (setup_.recorder == nullptr) return is_free ? give_back() : ask();
  CallTimer<true> timer(setup_);
  is_free ? give_back() : ask();
  timer.stop();
  setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
}

template <bool kTimed>
inline void Replayer::deallocate(const ReplayStep& step) {
  ReplayBlock& block = blocks_[step.slot];
  if (block.state != ReplayBlock::State::Live) [[unlikely]] {
    block.state = ReplayBlock::State::Empty;
    ++counts_.skipped_free_count;
    return;
  }
  block.state = ReplayBlock::State::Empty;
  ++counts_.deallocate_count;
  const cudaStream_t stream = setup_.streams[step.stream];
  CallTimer<kTimed> timer(setup_);
  setup_.backend->deallocate(block.pointer, step.size_bytes, stream);
  timer.stop();
  if constexpr (kTimed) {
    setup_.recorder->add(Operation::Deallocate, step.size_class, timer.host_ticks(),
                         timer.driver_ns());
  }
}

template <bool kTimed>
void Replayer::call_pool(const ReplayStep& step) {
  CallTimer<kTimed> timer(setup_);
  setup_.backend->call_pool(pool_call_of(step, setup_.streams));
  timer.stop();
  if constexpr (kTimed) setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
}

// Where the mark is the end of a step.
static void end_step(const ReplaySetup& setup, const ReplayStep& step,
                     std::uint64_t allocate_count) {
  if (step.mark_class() != MarkClass::Step) return;
  setup.recorder->mark();
  if (setup.steps != nullptr) setup.steps->mark(step.slot, allocate_count);
}

template <bool kTimed>
void Replayer::run_other(const ReplayStep& step) {
  switch (step.kind) {
    case EventKind::Record: {
      const ReplayBlock& block = blocks_[step.slot];
      if (block.state != ReplayBlock::State::Live) {
        ++counts_.skipped_record_count;
        return;
      }
      CallTimer<kTimed> timer(setup_);
      setup_.backend->record_stream(block.pointer, setup_.streams[step.stream]);
      timer.stop();
      if constexpr (kTimed) setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
      return;
    }
    case EventKind::Trim: {
      CallTimer<kTimed> timer(setup_);
      trim_backend(setup_, step);
      timer.stop();
      if constexpr (kTimed) setup_.recorder->add_other(timer.host_ticks(), timer.driver_ns());
      return;
    }
    case EventKind::Kernel:
      setup_.work->launch(setup_.streams[step.stream], step.size_bytes);
      if constexpr (kTimed) follow_requests(step);
      return;
    case EventKind::Host:
      setup_.work->spend_host(step.size_bytes);
      return;
    case EventKind::Busy:
      setup_.work->launch_gated(setup_.streams[step.stream]);
      return;
    case EventKind::Sync:
      setup_.work->synchronize();
      if constexpr (kTimed) follow_synchronize();
      return;
    case EventKind::Mark:
      if (step.mark_class() == MarkClass::Step) setup_.backend->begin_step();
      if constexpr (!kTimed) return;
      end_step(setup_, step, counts_.allocate_count);
      return follow_requests(step);
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
      return call_pool<kTimed>(step);
    case EventKind::GraphReplay:
    case EventKind::Alloc:
    case EventKind::Free:
    case EventKind::HostRecord:
      return;
    case EventKind::HostAlloc:
    case EventKind::HostFree:
      return hold_host(step);
  }
}

// What was refused counts as held: a host that has hung serves nothing more.
void Replayer::hold_host(const ReplayStep& step) {
  if (setup_.work == nullptr) return;
  const bool takes = step.kind == EventKind::HostAlloc;
  host_bytes_live_ += takes ? step.size_bytes : -step.size_bytes;
  if (setup_.work->hold_host(host_bytes_live_) || !takes) return;
  ++counts_.oom_count;
  counts_.stopped = setup_.on_oom == OomPolicy::Stop;
}

// A server's clock, where the replay waited for the device.
void Replayer::follow_synchronize() {
  if (setup_.requests == nullptr) return;
  setup_.requests->spend(setup_.recorder->program_picoseconds());
  setup_.requests->synchronize();
}

void Replayer::follow_requests(const ReplayStep& step) {
  if (setup_.requests == nullptr) return;
  RequestClock& clock = *setup_.requests;
  clock.spend(setup_.recorder->program_picoseconds());
  if (step.kind == EventKind::Kernel) return clock.launch(step.stream, step.size_bytes);
  switch (step.mark_class()) {
    case MarkClass::Step:
      return;
    case MarkClass::ServerStart:
      return clock.start_server();
    case MarkClass::IdleUntil:
      return clock.idle_until(step.size_bytes);
    case MarkClass::FirstToken:
      return clock.first_token(step.size_bytes);
    case MarkClass::RequestDone:
      return clock.request_done(step.size_bytes);
    case MarkClass::ManagedMemory:
    case MarkClass::Collective:
    case MarkClass::Send:
    case MarkClass::Receive:
      return;
  }
}

void Replayer::release_live() {
  for (ReplayBlock& block : blocks_) {
    if (block.state == ReplayBlock::State::Live) {
      setup_.backend->deallocate(block.pointer, block.size_bytes, setup_.streams[block.stream]);
    }
    block.state = ReplayBlock::State::Empty;
  }
  if (setup_.work != nullptr) setup_.work->release_host();
}

}  // namespace allocmark

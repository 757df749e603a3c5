// See threads.h.
#include "harness/tools/threads/threads.h"

#include <cuda_runtime_api.h>
#include <sys/resource.h>

#include <algorithm>
#include <barrier>
#include <exception>
#include <memory>
#include <span>
#include <thread>

#include <fmt/format.h>
#include "allocators/backend/backend.h"
#include "allocators/cuda/cuda_check.h"
#include "allocators/registry.h"
#include "base/error.h"
#include "base/median.h"
#include "harness/core/measure/clock.h"
#include "harness/core/measure/recorder.h"
#include "harness/core/replay/ballast.h"
#include "harness/core/replay/capacity.h"
#include "harness/core/replay/device_work.h"
#include "harness/core/replay/kernel_source.h"
#include "harness/core/replay/prepared_trace.h"
#include "harness/core/replay/replay.h"
#include "harness/core/replay/simcu_api.h"
#include "harness/tools/threads/noted_blocks.h"
#include "harness/tools/threads/turns.h"

namespace allocmark {
namespace {

rusage thread_usage() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage;
}

// What one thread did in one pass.
struct ThreadPass {
  double wall_s = 0, cpu_s = 0;
  std::uint64_t wait_count = 0, preemption_count = 0;
  std::exception_ptr error;
};

struct Workload {
  std::vector<ReplayStep> steps;
  std::uint32_t slot_count = 0, stream_count = 0;
  std::uint64_t requested_bytes_peak = 0;
};

Workload read_workload(const ThreadsSpec& spec) {
  PreparedTrace trace(open_workload_with_kernels(spec.workload, spec.seed));
  if (!trace.jobs().empty() || !trace.is_kept()) {
    throw UsageError(
        {.what = "this workload is not for threads",
         .where = spec.workload,
         .wanted = fmt::format("one process of at most {} events", PreparedTrace::kKeptCountMax),
         .got = trace.jobs().empty() ? "more events" : "several processes",
         .next = "choose another, as: gpt2_train_amp"});
  }
  Workload workload{.steps = {},
                    .slot_count = 0,
                    .stream_count = trace.facts().stream_count,
                    .requested_bytes_peak = trace.facts().requested_bytes_peak};
  trace.for_each_step_batch([&](const TraceBatch& batch) {
    workload.steps.insert(workload.steps.end(), batch.steps.begin(), batch.steps.end());
    workload.slot_count = batch.slot_count;
    return true;
  });
  return workload;
}

void widen(CountRange& range, std::uint64_t value, bool is_first) {
  range.low = is_first ? value : std::min(range.low, value);
  range.high = is_first ? value : std::max(range.high, value);
}

class ThreadRun {
 public:
  explicit ThreadRun(const ThreadsSpec& spec)
      : spec_(spec), entry_(find_backend(spec.allocator)), workload_(read_workload(spec)) {
    check_runs_here(entry_, spec.conf);
    if (!entry_.capabilities_for(spec.conf).any_thread) {
      throw UsageError({.what = "this allocator is not for several threads",
                        .where = "--allocator",
                        .wanted = "one that claims to be safe on any thread",
                        .got = spec.allocator,
                        .next = "see: allocmark list allocators"});
    }
    has_device_ = entry_.capabilities.real_memory;
    if (has_device_) {
      ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
      ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device_));
    }
    check_devices();
    clock_.finish_calibration();
  }

  ThreadsRow run(std::uint32_t thread_count) {
    const Device device = make_device(thread_count);
    const std::vector<Ballast> ballasts = enforce(thread_count);
    ThreadsRow row;
    row.thread_count = thread_count;
    row.is_repeatable = true;
    Recorder sum = make_recorder();
    std::vector<double> calls_per_s;
    std::vector<double> unfairness;
    std::vector<double> off_cpu;
    std::vector<std::uint64_t> placements;
    if (has_device_) {
      CheckedBlocks blocks;
      Recorder untimed = make_recorder();
      (void)run_pass(device, untimed, &blocks);
      row.overlap = blocks.overlap();
    }
    for (std::uint32_t i = 0; i < spec_.pass_count; ++i) {
      const PassEnd end = run_pass(device, sum);
      double slowest_s = 0;
      double fastest_s = HUGE_VAL;
      double wall_s = 0;
      double cpu_s = 0;
      for (const ThreadPass& thread : end.threads) {
        slowest_s = std::max(slowest_s, thread.wall_s);
        fastest_s = std::min(fastest_s, thread.wall_s);
        wall_s += thread.wall_s;
        cpu_s += thread.cpu_s;
        row.wait_count += thread.wait_count;
        row.preemption_count += thread.preemption_count;
      }
      // In turns one thread runs at a time.
      const double all_s = spec_.order == ThreadOrder::Turns ? wall_s : slowest_s;
      if (all_s > 0) calls_per_s.push_back(static_cast<double>(end.call_count) / all_s);
      if (fastest_s > 0) unfairness.push_back(slowest_s / fastest_s);
      if (wall_s > 0 && spec_.order == ThreadOrder::Free) {
        off_cpu.push_back(std::max(0.0, 1 - cpu_s / wall_s));
      }
      row.call_count = end.call_count;
      widen(row.oom_count, end.oom_count, i == 0);
      widen(row.reserved_bytes_end, end.reserved_bytes_end, i == 0);
      if (i == 0) placements = end.placements;
      row.is_repeatable = row.is_repeatable && placements == end.placements;
    }
    select_device(0);  // as the caller had it
    row.allocate = sum.latency(Operation::Allocate).total;
    row.deallocate = sum.latency(Operation::Deallocate).total;
    row.calls_per_s = median(calls_per_s);
    row.slowest_over_fastest = unfairness.empty() ? 1 : median(unfairness);
    row.off_cpu_share = median(off_cpu);
    return row;
  }

 private:
  // What a pass leaves behind.
  struct PassEnd {
    std::vector<ThreadPass> threads;
    std::uint64_t oom_count = 0, reserved_bytes_end = 0, call_count = 0;
    std::vector<std::uint64_t> placements;
  };

  [[nodiscard]] Recorder make_recorder() const {
    return Recorder({.scale = clock_.scale(), .has_driver_model = simcu_.present});
  }
  // Made before memory is held back, since the driver takes some for them.
  struct Device {
    std::vector<std::unique_ptr<StreamSet>> streams;  // one where all threads share it
    std::vector<std::unique_ptr<DeviceWork>> works;
  };
  [[nodiscard]] Device make_device(std::uint32_t thread_count) const {
    // Stream 0 of a trace is the default stream, which all threads would share.
    const std::uint32_t own_count = workload_.stream_count + 1;
    Device device;
    for (std::uint32_t i = 0; i < thread_count; ++i) {
      select_device(i);
      if (i < spec_.device_count || !spec_.shares_streams) {
        device.streams.push_back(std::make_unique<StreamSet>(own_count, has_device_));
      }
      device.works.push_back(has_device_ ? make_device_work(simcu_) : make_no_device_work());
    }
    return device;
  }

  using Backends = std::vector<std::unique_ptr<Backend>>;
  using Replayers = std::vector<std::unique_ptr<Replayer>>;
  // Each in what checks its blocks or keeps a table of them; empty where neither is asked for.
  [[nodiscard]] Backends wrap(const Backends& backends, BlockTable& table,
                              CheckedBlocks* checked) const {
    Backends wrapped;
    for (const auto& backend : backends) {
      if (checked != nullptr) {
        wrapped.push_back(std::make_unique<NotingBackend<CheckedBlocks>>(*backend, *checked));
      } else if (spec_.table != TableLock::None) {
        wrapped.push_back(std::make_unique<NotingBackend<BlockTable>>(*backend, table));
      }
    }
    return wrapped;
  }

  // Where blocks are checked, times mean nothing.
  PassEnd run_pass(const Device& device, Recorder& sum, CheckedBlocks* checked = nullptr) {
    const auto thread_count = static_cast<std::uint32_t>(device.works.size());
    const Backends backends = make_backends();
    BlockTable table(spec_.table == TableLock::Parts ? kTablePartCount : 1);
    const Backends wrapped = wrap(backends, table, checked);
    const Backends& used = wrapped.empty() ? backends : wrapped;
    std::vector<Recorder> recorders(thread_count, make_recorder());
    Replayers replayers(thread_count);
    PassEnd end;
    end.threads.resize(thread_count);
    Turns turns(thread_count);
    std::barrier start(static_cast<std::ptrdiff_t>(thread_count));
    const auto body = [&](std::uint32_t i) {
      ThreadPass& pass = end.threads[i];
      try {
        select_device(i);
        const StreamSet& own = *device.streams[spec_.shares_streams ? i % spec_.device_count : i];
        replayers[i] = std::make_unique<Replayer>(
            ReplaySetup{.backend = used[i % used.size()].get(),
                        .work = device.works[i].get(),
                        .streams = own.all().subspan(1),
                        .recorder = &recorders[i],
                        .clock = &clock_,
                        .simcu_clock = simcu_.present ? simcu_.thread_clock() : nullptr});
        replayers[i]->reserve_slots(workload_.slot_count);
      } catch (...) {
        pass.error = std::current_exception();
        turns.fail();
      }
      start.arrive_and_wait();
      if (pass.error) return;
      try {
        const rusage before = thread_usage();
        const std::uint64_t cpu_before_ns = thread_cpu_ns();
        replay(*replayers[i], i, turns, pass);
        pass.cpu_s = static_cast<double>(thread_cpu_ns() - cpu_before_ns) * 1e-9;
        const rusage after = thread_usage();
        pass.wait_count = static_cast<std::uint64_t>(after.ru_nvcsw - before.ru_nvcsw);
        pass.preemption_count = static_cast<std::uint64_t>(after.ru_nivcsw - before.ru_nivcsw);
      } catch (...) {
        pass.error = std::current_exception();
        turns.fail();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t i = 0; i < thread_count; ++i) threads.emplace_back(body, i);
    }
    for (const ThreadPass& pass : end.threads) {
      if (pass.error) std::rethrow_exception(pass.error);
    }
    for (std::uint32_t i = 0; i < thread_count; ++i) sum.merge(recorders[i]);
    collect(device, backends, replayers, end);
    return end;
  }

  // What the threads leave behind; then their blocks are given back.
  void collect(const Device& device, const Backends& backends, const Replayers& replayers,
               PassEnd& end) const {
    for (std::uint32_t i = 0; i < replayers.size(); ++i) {
      select_device(i);
      if (i < spec_.device_count) device.works[i]->synchronize();
      const ReplayCounts& counts = replayers[i]->counts();
      end.oom_count += counts.oom_count;
      end.call_count += counts.allocate_count + counts.deallocate_count;
      end.placements.push_back(replayers[i]->placement_hash());
    }
    for (std::uint32_t i = 0; i < spec_.device_count; ++i) {
      select_device(i);
      end.reserved_bytes_end += backends[i % backends.size()]->totals().reserved_bytes.value_or(0);
    }
    for (std::uint32_t i = 0; i < replayers.size(); ++i) {
      select_device(i);
      replayers[i]->release_live();
    }
  }

  // Of the thread's device; a no-op for one device.
  void select_device(std::uint32_t thread) const {
    if (!has_device_) return;
    const auto offset = static_cast<int>(thread % spec_.device_count);
    ALLOCMARK_CUDA_CHECK(cudaSetDevice(device_ + offset));
  }

  void check_devices() const {
    if (spec_.device_count == 1) return;
    if (!has_device_) {
      throw UsageError({.what = "this allocator has no device",
                        .where = "--devices",
                        .wanted = "1",
                        .got = std::to_string(spec_.device_count),
                        .next = "choose another, as: --allocator caching"});
    }
    int count = 0;
    ALLOCMARK_CUDA_CHECK(cudaGetDeviceCount(&count));
    if (device_ + static_cast<int>(spec_.device_count) <= count) return;
    throw EnvironmentError({.what = "too few GPUs",
                            .where = "--devices",
                            .wanted = fmt::format("{} from {} on", spec_.device_count, device_),
                            .got = std::to_string(count),
                            .next = "simulate them, as: --device sim:h200"});
  }

  // One allocator for each device, but one for all where it has a state per device.
  [[nodiscard]] Backends make_backends() const {
    const bool is_one = family_of(spec_.allocator) == "torch";
    Backends backends;
    for (std::uint32_t i = 0; i < (is_one ? 1 : spec_.device_count); ++i) {
      select_device(i);
      backends.push_back(entry_.make({.conf = spec_.conf, .memory_limit_bytes = 0}));
    }
    return backends;
  }

  // Free: the whole trace. In turns: a part, then the next thread's part; only the own parts are
  // timed.
  void replay(Replayer& replayer, std::uint32_t thread, Turns& turns, ThreadPass& pass) const {
    const std::span<const ReplayStep> all(workload_.steps);
    const bool in_turns = spec_.order == ThreadOrder::Turns;
    const std::size_t part = in_turns ? spec_.turn_event_count : all.size();
    std::uint64_t ticks = 0;
    for (std::size_t at = 0; at < all.size(); at += part) {
      if (in_turns && !turns.wait_for(thread)) return;
      const std::uint64_t begin_ticks = clock_.now_ticks();
      replayer.run(all.subspan(at, std::min(part, all.size() - at)));
      ticks += clock_.now_ticks() - begin_ticks;
      if (in_turns) turns.pass_on();
    }
    pass.wall_s = static_cast<double>(ticks) * clock_.scale().ns_per_tick() * 1e-9;
  }

  // One for each device.
  [[nodiscard]] std::vector<Ballast> enforce(std::uint32_t thread_count) const {
    std::vector<Ballast> ballasts;
    const Capacity capacity = parse_capacity(spec_.capacity);
    if (capacity.unlimited() || !has_device_) return ballasts;
    for (std::uint32_t i = 0; i < spec_.device_count; ++i) {
      select_device(i);
      // Threads i, i + device_count, ...
      const std::uint64_t own_count =
          (thread_count + spec_.device_count - 1 - i) / spec_.device_count;
      ballasts.emplace_back(capacity.resolve_bytes(workload_.requested_bytes_peak *
                                                   std::max<std::uint64_t>(own_count, 1)));
    }
    return ballasts;
  }

  const ThreadsSpec& spec_;
  const BackendEntry& entry_;
  Workload workload_;
  SimcuApi simcu_ = SimcuApi::find();
  TickClock clock_;
  bool has_device_ = false;
  int device_ = 0;
};

}  // namespace

std::vector<ThreadsRow> run_threads(const ThreadsSpec& spec) {
  ThreadRun run(spec);
  std::vector<ThreadsRow> rows;
  for (const std::uint32_t thread_count : spec.thread_counts) {
    rows.push_back(run.run(thread_count));
  }
  return rows;
}

}  // namespace allocmark

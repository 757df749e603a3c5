// The passes of a soak, on one instance of the backend. This file times.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>

#include <unistd.h>

#include "allocators/cuda/cuda_check.h"
#include "base/process_memory.h"
#include "harness/core/cell/cell_run.h"
#include "harness/core/cell/soak.h"

namespace allocmark {
namespace {

constexpr double kNsPerS = 1e9;
// A simulated program says everything in a few passes; it idles for the rest of a window.
constexpr std::uint64_t kSimulatedPassCount = 8;

// Real time, or virtual time on a simulated device.
class SoakClock {
 public:
  explicit SoakClock(const SimcuApi& simcu)
      : simcu_(simcu), simulated_(simcu.present ? simcu.thread_clock() : nullptr) {
    if (simulated_ != nullptr) begin_modelled_ns_ = simulated_->modelled_ns;
  }
  [[nodiscard]] bool is_simulated() const { return simulated_ != nullptr; }
  [[nodiscard]] double wall_s() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  [[nodiscard]] double elapsed_s() const {
    if (simulated_ == nullptr) return wall_s();
    return static_cast<double>(simulated_->modelled_ns - begin_modelled_ns_) / kNsPerS;
  }
  // Of a simulated device.
  void idle_until(double end_s) const {
    const double left_s = end_s - elapsed_s();
    if (left_s <= 0) return;
    (void)simcu_.launch(nullptr, static_cast<std::uint64_t>(left_s * kNsPerS) + 1);
    ALLOCMARK_CUDA_CHECK(cudaDeviceSynchronize());
  }

 private:
  const SimcuApi& simcu_;
  const SimcuThreadClock* simulated_;
  std::uint64_t begin_modelled_ns_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

std::uint64_t device_calls(const MemoryStats& stats) {
  return stats.device_allocate_count.value_or(0) + stats.device_free_count.value_or(0);
}

}  // namespace

void CellRun::soak(const SoakSpec& spec, const std::function<void(const SoakWindow&)>& on_window) {
  if (!ready()) return;
  clock_.finish_calibration();
  Recorder recorder({.scale = clock_.scale(), .has_driver_model = simcu_.present});
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  const SoakClock time(simcu_);
  std::uint64_t calls_before = 0;
  double begin_s = 0;
  double begin_wall_s = 0;
  while (begin_s < spec.seconds - spec.begin_s) {
    recorder.clear();
    SoakWindow window;
    const double end_s = std::min(begin_s + spec.window_s, spec.seconds - spec.begin_s);
    do {
      soak_pass(*backend, recorder, window);
      if (over_) return (void)backend.release();
    } while (time.elapsed_s() < end_s &&
             !(time.is_simulated() && window.pass_count >= kSimulatedPassCount));
    if (time.is_simulated()) time.idle_until(end_s);
    const MemoryStats stats = backend->stats(nullptr);
    const LatencySummary allocate = recorder.latency(Operation::Allocate).total;
    const LatencySummary deallocate = recorder.latency(Operation::Deallocate).total;
    window.allocate_p50_ns = allocate.p50_ns;
    window.allocate_p99_ns = allocate.p99_ns;
    window.deallocate_p50_ns = deallocate.p50_ns;
    window.deallocate_p99_ns = deallocate.p99_ns;
    window.held_bytes = stats.reserved_bytes.value_or(0);
    window.device_bytes = std::max(used_bytes(), bytes_before) - bytes_before;
    if (window.held_bytes > 0 && stats.free_largest_bytes) {
      window.scattered_share = 1 - static_cast<double>(*stats.free_largest_bytes) /
                                       static_cast<double>(window.held_bytes);
    }
    window.device_call_count = device_calls(stats) - calls_before;
    calls_before = device_calls(stats);
    window.process_bytes = process_memory(getpid()).resident_bytes;
    window.wall_s = time.wall_s() - begin_wall_s;
    begin_wall_s = time.wall_s();
    begin_s = time.elapsed_s();
    window.end_s = spec.begin_s + begin_s;
    on_window(window);
  }
}

void CellRun::soak_pass(Backend& backend, Recorder& recorder, SoakWindow& window) {
  Replayer replayer(ReplaySetup{.backend = &backend,
                                .processes = processes_of(&backend),
                                .work = work_.get(),
                                .streams = streams_->all(),
                                .on_oom = on_oom_,
                                .side = entry_->capabilities.side,
                                .recorder = &recorder,
                                .clock = &clock_,
                                .simcu_clock = simcu_clock(),
                                .places = fresh_places()});
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    replayer.run(batch.steps);
    return !replayer.counts().stopped;
  });
  work_->synchronize();
  recorder.end_pass();
  if (const auto broken = broken_place()) {
    // As end_broken(): what lives is not given back.
    result_.status = CellStatus::Failed;
    result_.reason = *broken;
    over_ = true;
    return;
  }
  replayer.release_live();
  work_->synchronize();
  ++window.pass_count;
  window.allocate_count += replayer.counts().allocate_count;
  window.oom_count += replayer.counts().oom_count;
}

SoakEnd run_soak(const SoakSpec& spec, const std::function<void(const SoakWindow&)>& on_window) {
  CellSpec cell;
  cell.key = spec.key;
  cell.verify = spec.verify;
  const PartSink no_parts;
  CellResult result;
  result.key = spec.key;
  const std::uint64_t unimplemented_before = unimplemented_calls().count;
  fail_on_error(result, [&] { CellRun(cell, nullptr, no_parts, result).soak(spec, on_window); });
  warn_of_unimplemented(result, unimplemented_before);
  return {.status = result.status, .reason = result.reason, .warnings = result.warnings};
}

}  // namespace allocmark

// The untimed passes of a cell: the checked one, and the one that looks into blocks. This file
// checks.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "allocators/cuda/cuda_check.h"
#include "base/bytes.h"
#include "base/output_file.h"
#include "harness/core/cell/cell_run.h"
#include "harness/core/check/placement_recorder.h"

namespace allocmark {

namespace {

// By process; empty for one process.
std::vector<std::uint64_t> cached_bytes_at_oom(const ProcessBackends* processes) {
  std::vector<std::uint64_t> bytes;
  for (std::size_t i = 0; processes != nullptr && i < processes->process_count(); ++i) {
    bytes.push_back(processes->cached_bytes_at_oom(i).value_or(0));
  }
  return bytes;
}

}  // namespace

void CellRun::write_timeline(const Timeline& timeline) {
  if (!spec_.timeline_path.empty()) {
    write_file(spec_.timeline_path, timeline.to_json(spec_.key.id()));
  }
}

VerifySetup CellRun::verify_setup(Backend& backend, VerifyPart part) {
  // What bounds pinned memory stands for the machine's own.
  const std::optional<std::uint64_t> limit_bytes =
      memory_limit_bytes_ == 0 || is_on_host() ? std::nullopt : std::optional(memory_limit_bytes_);
  return VerifySetup{.replay = {.backend = &backend,
                                .processes = processes_of(&backend),
                                .work = work_.get(),
                                .streams = streams_->all(),
                                .on_oom = on_oom_,
                                .side = entry_->capabilities.side,
                                .assumed_kernel_ns = assumed_kernel_ns_},
                     .capabilities = entry_->capabilities_for(spec_.key.conf_text()),
                     .simcu = simcu_,
                     .facts = trace_->facts(),
                     .level = spec_.verify,
                     .part = part,
                     .capacity_bytes = available_bytes_,
                     .limit_bytes = limit_bytes};
}

// Every number of a cell is of device memory.
void CellRun::tell_host_memory(std::uint64_t host_bytes) {
  if (host_bytes == 0) return;
  const auto host = simcu_.host();
  const bool is_one_pool = host && host->reserve_bytes > 0;
  warn_once(fmt::format(
      "all numbers are of device memory; the workload also asks {} of pinned memory of the host{}: "
      "allocmark pinned --workload {}",
      format_bytes(host_bytes), is_one_pool ? ", which is this device's" : "",
      spec_.key.workload_text()));
}

void CellRun::checked_pass() {
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
  VerifySetup setup = verify_setup(*backend, VerifyPart::Figures);
  setup.device_bytes_before = bytes_before;
  setup.placements = recorder ? &*recorder : nullptr;
  setup.timeline = spec_.timeline_path.empty() ? nullptr : &timeline;
  setup.clock = &clock_;
  if (simcu_.present) {
    clock_.finish_calibration();
    usual_.emplace(static_cast<std::uint64_t>(UsualCalls::kLongNs / clock_.scale().ns_per_tick()));
    setup.usual = &*usual_;
  }
  Verifier verifier(setup);
  trace_->for_each_batch([&](const TraceBatch& batch) { return verifier.run(batch); });
  if (usual_) usual_->end_pass();
  const VerifyReport report = verifier.report();
  timed_placement_hash_ = report.placement_hash;
  cold_ticks_ = report.cold_ticks;
  fill_from(result_, report);
  tell_host_memory(report.host_bytes_peak);
  if (!tells_used_bytes()) result_.device_bytes_peak.reset();
  fill_stats(result_, *backend);
  if (const ProcessBackends* processes = processes_of(backend.get())) {
    const std::string failures = processes->failures();
    if (!failures.empty()) warn_once("out of memory by process: " + failures);
  }
  if (recorder) recorder->end(report.counts.event_count);
  if (placements) placements->finish();
  write_timeline(timeline);
  if (report.broken_rule) return end_broken(*report.broken_rule, std::move(backend));
  // The instance that failed ends first: the others need the device.
  std::vector<std::uint64_t> cached_bytes = cached_bytes_at_oom(processes_of(backend.get()));
  (void)end_pass(verifier, backend, bytes_before);
  try_remedies(cached_bytes);
}

void CellRun::idle_pass() {
  if (assumed_kernel_ns_ == 0) return;
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  Replayer replayer({.backend = backend.get(),
                     .work = work_.get(),
                     .streams = streams_->all(),
                     .on_oom = on_oom_,
                     .side = entry_->capabilities.side});
  trace_->for_each_step_batch([&](const TraceBatch& batch) {
    replayer.reserve_slots(batch.slot_count);
    replayer.run(batch.steps);
    return !replayer.counts().stopped;
  });
  result_.idle_oom_count = replayer.counts().oom_count;
  timed_placement_hash_ = replayer.placement_hash();
  (void)end_pass(replayer, backend, bytes_before);
}

void CellRun::contents_pass() {
  if (!looks_into_blocks(spec_.verify, has_device_)) return;
  const std::uint64_t bytes_before = used_bytes();
  std::unique_ptr<Backend> backend = make_backend();
  Verifier verifier(verify_setup(*backend, VerifyPart::Contents));
  trace_->for_each_batch([&](const TraceBatch& batch) { return verifier.run(batch); });
  verifier.finish();
  const VerifyReport report = verifier.report();
  fill_from_contents(result_, report);
  if (report.broken_rule) return end_broken(*report.broken_rule, std::move(backend));
  (void)end_pass(verifier, backend, bytes_before);
}

void CellRun::end_broken(const std::string& rule, std::unique_ptr<Backend> backend) {
  result_.status = CellStatus::Failed;
  result_.reason = rule;
  over_ = true;
  (void)backend.release();
}

}  // namespace allocmark

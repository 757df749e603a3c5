// The replay under the shadow heap. This file checks.
#include "harness/core/check/verify.h"

#include <algorithm>
#include <utility>

#include "allocators/cuda/cuda_check.h"

namespace allocmark {

namespace {

constexpr std::uint64_t kRandomSeed = 20261120;
// Asking a GPU about a pointer costs microseconds, so not every block is asked about.
constexpr std::uint64_t kRangeCheckPeriodGpu = 64;

}  // namespace

std::uint64_t device_used_bytes(const SimcuApi& simcu) {
  if (simcu.present) return simcu.used_bytes();
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ALLOCMARK_CUDA_CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

std::uint64_t used_bytes_of(MemorySide side, const SimcuApi& simcu) {
  if (side == MemorySide::Device) return device_used_bytes(simcu);
  return simcu.present ? simcu.pinned_bytes() : 0;
}

Verifier::Verifier(const VerifySetup& setup)
    : setup_(setup),
      heap_(setup.capabilities.alignment_bytes),
      contents_(setup.simcu, looks_inside() ? setup.level : VerifyLevel::Off,
                setup.capabilities.side),
      calls_(collects() ? setup.simcu : SimcuApi{}, setup.clock, setup.usual),
      overhead_(setup.simcu),
      points_(setup.replay.streams),
      random_(kRandomSeed) {
  if (setup_.capabilities.real_memory) ALLOCMARK_CUDA_CHECK(cudaGetDevice(&device_));
  // On a GPU contents can only be looked at in stream order, which changes when work ends; so only
  // traces without work and on one stream are looked into there, unless everything is asked for.
  marks_blocks_ =
      looks_inside() && (setup_.simcu.present || checks_whole() ||
                         (setup_.facts.work_count == 0 && setup_.facts.stream_count == 1));
  if (collects() && setup_.facts.pool_event_count > 0)
    pools_.emplace(*setup_.replay.backend, setup_.timeline);
  if (looks_inside() && has_gpu()) report_.unordered_reuse_count = 0;
  if (!checks_rules() || !setup_.capabilities.real_memory || !setup_.simcu.present) return;
  // simcuda follows the use of device memory alone.
  if (setup_.capabilities.side == MemorySide::Host) return;
  report_.unordered_reuse_count = 0;
  order_.emplace(setup_.simcu, setup_.replay.streams);
}

bool Verifier::run(const TraceBatch& batch) {
  if (report_.counts.stopped || report_.broken_rule) return false;
  if (blocks_.size() < batch.slot_count) blocks_.resize(batch.slot_count);
  for (std::size_t i = 0; i < batch.steps.size(); ++i) {
    const Event& event = batch.events[i];
    const ReplayStep& step = batch.steps[i];
    bool goes_on = true;
    if (pools_) pools_->before(event);
    if (step.kind == EventKind::Alloc) {
      goes_on = allocate(event, step);
      if (setup_.replay.assumed_kernel_ns > 0 && !step.failed_before()) {
        launch(step.stream, setup_.replay.assumed_kernel_ns);
      }
    } else if (step.kind == EventKind::Free) {
      deallocate(step);
    } else {
      run_other(event, step);
      goes_on = !report_.counts.stopped;
    }
    if (pools_) pools_->after(event);
    if (setup_.timeline != nullptr) note_timeline();
    ++report_.counts.event_count;
    if (setup_.replay.work != nullptr) setup_.replay.work->note_progress();
    if (setup_.placements != nullptr) setup_.placements->note_operation(report_.counts.event_count);
    if (!goes_on || report_.broken_rule) return false;
  }
  return true;
}

bool Verifier::allocate(const Event& event, const ReplayStep& step) {
  const bool failed_before = step.failed_before();
  report_.counts.allocate_count += failed_before ? 0 : 1;
  const std::uint64_t waiting_bytes_before = collects() ? waiting_bytes() : 0;
  const cudaStream_t stream = setup_.replay.streams[event.stream];
  const auto ask = [&] {
    return calls_.make([&] { return setup_.replay.backend->allocate(event.size_bytes, stream); });
  };
  AllocateResult result = ask();
  if (result.status != AllocateStatus::Ok && !failed_before && asks_after_sync()) {
    synchronize();
    ++report_.counts.asked_after_sync_count;
    result = ask();
    report_.counts.served_after_sync_count += result.status == AllocateStatus::Ok ? 1 : 0;
  }
  Block& block = blocks_[step.slot];
  const bool failed = result.status != AllocateStatus::Ok;
  if (setup_.placements != nullptr)
    setup_.placements->note_allocation(report_.counts.event_count, result);
  block = Block{.shadow = {.event_index = report_.counts.event_count,
                           .id = event.id,
                           .address = reinterpret_cast<std::uintptr_t>(result.pointer),
                           .size_bytes = event.size_bytes,
                           .stream = event.stream},
                .pointer = result.pointer,
                .live = !failed,
                .failed_before = failed_before};
  if (failed) {
    placement_.add_failure();
    if (failed_before) {
      ++report_.counts.failed_again_count;
      return true;
    }
    if (pools_) pools_->note_failure(event.stream);
    note_oom(event, waiting_bytes_before);
    return !report_.counts.stopped;
  }
  placement_.add(result.pointer);
  if (!failed_before) requested_bytes_live_ += event.size_bytes;
  report_.requested_bytes_peak = std::max(report_.requested_bytes_peak, requested_bytes_live_);
  if (checks_rules()) check_place(block);
  if (looks_inside()) look_into_new(block);
  if (checks_whole()) check_some_block();
  if (!collects()) return true;
  overhead_.allocate(result.pointer, event.size_bytes);
  note_peaks();
  return true;
}

std::uint64_t Verifier::device_extra_bytes(const MemoryStats& stats) const {
  if (!setup_.capabilities.real_memory) return 0;
  // Who does not say what it reserves does not say how it rounds either.
  if (!stats.reserved_bytes) return overhead_.bytes();
  const std::uint64_t held_bytes = setup_.device_bytes_before + *stats.reserved_bytes;
  const std::uint64_t now_bytes = used_bytes();
  return now_bytes > held_bytes ? now_bytes - held_bytes : 0;
}

void Verifier::check_place(const Block& block) {
  if (const auto broken = heap_.allocate(block.shadow)) {
    fail(broken->text());
    return;
  }
  if (!setup_.capabilities.real_memory || block.shadow.size_bytes == 0) return;
  if (order_) check_order(block);
  if (setup_.simcu.present) check_range(block);
}

void Verifier::look_into_new(Block& block) {
  if (report_.broken_rule || block.shadow.size_bytes == 0) return;
  const bool in_use = has_gpu() && check_early_reuse(block);
  if (has_gpu()) check_range(block);
  if (report_.broken_rule) return;
  // Where the backend does not promise stream order, kernels of ours that have yet to look at the
  // old block's contents must find them.
  if (in_use && !setup_.capabilities.stream_ordered && contents_.uses_kernels()) {
    contents_.leave_unmarked();
    return;
  }
  write_pattern(block);
}

void Verifier::check_order(const Block& block) {
  std::optional<std::string> unordered = order_->take(block.shadow);
  if (!unordered) return;
  if (setup_.capabilities.stream_ordered) {
    fail("broken rule: " + std::string(to_string(HeapRule::NoEarlyReuse)) + ": " + *unordered);
  }
  if ((*report_.unordered_reuse_count)++ == 0) report_.unordered_reuse = std::move(*unordered);
}

bool Verifier::is_on_side(const Block& block) const {
  const bool on_host = setup_.capabilities.side == MemorySide::Host;
  const std::uint64_t size_bytes = block.shadow.size_bytes;
  if (setup_.simcu.present) {
    return on_host ? setup_.simcu.pins(block.pointer, size_bytes)
                   : setup_.simcu.holds(device_, block.pointer, size_bytes);
  }
  if (report_.counts.allocate_count % kRangeCheckPeriodGpu != 1) return true;
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, block.pointer);
  (void)cudaGetLastError();
  return error == cudaSuccess &&
         attributes.type == (on_host ? cudaMemoryTypeHost : cudaMemoryTypeDevice);
}

void Verifier::check_range(const Block& block) {
  if (is_on_side(block)) return;
  const HeapRule rule =
      setup_.capabilities.side == MemorySide::Host ? HeapRule::InPinnedRange : HeapRule::InRange;
  fail(BrokenRule{.rule = rule, .block = block.shadow}.text());
}

void Verifier::check_footprint(const MemoryStats& stats) {
  if (!checks_rules()) return;
  const auto too_small = [&](const char* name, std::uint64_t footprint_bytes) {
    fail("broken rule: the footprint covers all live blocks: event " +
         std::to_string(report_.counts.event_count) + ": " + name + " is " +
         std::to_string(footprint_bytes) + " bytes while " + std::to_string(requested_bytes_live_) +
         " bytes are live");
  };
  if (stats.allocated_bytes.value_or(requested_bytes_live_) < requested_bytes_live_) {
    too_small("allocated_bytes", *stats.allocated_bytes);
  } else if (stats.reserved_bytes.value_or(requested_bytes_live_) < requested_bytes_live_) {
    too_small("reserved_bytes", *stats.reserved_bytes);
  } else if (setup_.capabilities.real_memory && setup_.simcu.present) {
    const std::uint64_t own_bytes = used_bytes() - setup_.device_bytes_before;
    const bool on_host = setup_.capabilities.side == MemorySide::Host;
    if (own_bytes < requested_bytes_live_)
      too_small(on_host ? "the host's pinned memory" : "the device's memory in use", own_bytes);
  }
}

void Verifier::deallocate(const ReplayStep& step) {
  Block& block = blocks_[step.slot];
  if (!block.live) {
    report_.counts.skipped_free_count += block.failed_before ? 0 : 1;
    return;
  }
  if (block.marked_bytes != 0) {
    check_pattern(block);
    contents_.forget(contents_of(block));
  }
  if (report_.broken_rule) return;
  block.live = false;
  if (!block.failed_before) requested_bytes_live_ -= block.shadow.size_bytes;
  if (checks_rules()) heap_.deallocate(block.shadow);
  if (order_) order_->give_back(block.shadow);
  if (looks_inside() && has_gpu()) {
    hazards_.deallocate(block.shadow, now_ns(),
                        [this](std::uint32_t stream) { return points_.make(stream); });
  }
  report_.counts.deallocate_count += block.failed_before ? 0 : 1;
  if (collects()) overhead_.deallocate(block.pointer, block.shadow.size_bytes);
  const cudaStream_t stream = setup_.replay.streams[step.stream];
  calls_.make([&] { setup_.replay.backend->deallocate(block.pointer, step.size_bytes, stream); });
}

// All work that is known of is done.
void Verifier::synchronize() {
  setup_.replay.work->synchronize();
  hazards_.synchronize();
  points_.clear();
  contents_.note_synchronize();
}

void Verifier::launch(std::uint32_t stream, std::uint64_t duration_ns) {
  if (checks_whole()) note_work(stream, duration_ns);
  setup_.replay.work->launch(setup_.replay.streams[stream], duration_ns);
}

void Verifier::run_other(const Event& event, const ReplayStep& step) {
  const cudaStream_t stream = setup_.replay.streams[step.stream];
  switch (step.kind) {
    case EventKind::Record:
      if (!blocks_[step.slot].live) {
        ++report_.counts.skipped_record_count;
        return;
      }
      order_ ? order_->record(event.id, event.stream) : hazards_.record(event.id, event.stream);
      calls_.make(
          [&] { setup_.replay.backend->record_stream(blocks_[step.slot].pointer, stream); });
      return;
    case EventKind::Trim:
      calls_.make([&] { trim_backend(setup_.replay, step); });
      return;
    case EventKind::Kernel:
      return launch(step.stream, event.duration_ns());
    case EventKind::Host:
      setup_.replay.work->spend_host(event.duration_ns());
      return;
    case EventKind::Busy:
      if (looks_inside()) note_work(event.stream, kGateStallNsMax);
      contents_.note_gate(event.stream);
      setup_.replay.work->launch_gated(stream);
      return;
    case EventKind::Sync:
      return synchronize();
    case EventKind::Mark:
      if (setup_.timeline != nullptr) setup_.timeline->add_mark(report_.counts.event_count);
      if (step.mark_class() != MarkClass::Step) return;
      if (collects()) note_growth();
      calls_.make([&] { setup_.replay.backend->begin_step(); });
      return;
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
      calls_.make(
          [&] { setup_.replay.backend->call_pool(pool_call_of(step, setup_.replay.streams)); });
      return;
    case EventKind::GraphReplay:
    case EventKind::Alloc:
    case EventKind::Free:
    case EventKind::HostRecord:
      return;
    case EventKind::HostAlloc:
    case EventKind::HostFree:
      return hold_host(event, step);
  }
}

void Verifier::hold_host(const Event& event, const ReplayStep& step) {
  const bool takes = step.kind == EventKind::HostAlloc;
  host_bytes_live_ += takes ? step.size_bytes : -step.size_bytes;
  report_.host_bytes_peak = std::max(report_.host_bytes_peak, host_bytes_live_);
  if (setup_.replay.work == nullptr || setup_.replay.work->hold_host(host_bytes_live_) || !takes)
    return;
  note_oom(event, waiting_bytes());
}

void Verifier::fail(std::string text) {
  if (!report_.broken_rule) report_.broken_rule = std::move(text);
}

void Verifier::release_live() {
  for (Block& block : blocks_) {
    if (!block.live) continue;
    block.live = false;
    setup_.replay.backend->deallocate(block.pointer, block.shadow.size_bytes,
                                      setup_.replay.streams[block.shadow.stream]);
  }
  if (setup_.replay.work != nullptr) setup_.replay.work->release_host();
}

VerifyReport Verifier::report() {
  VerifyReport report = report_;
  report.placement_hash = placement_.value();
  report.growth = growth_.result();
  report.cold_ticks = calls_.cold_ticks();
  report.driver_calls = calls_.driver_calls();
  if (pools_) report.pool_counters = pools_->counters();
  return report;
}

}  // namespace allocmark

// The course of one cell: prepare, check, time, report.
#include "harness/core/cell/cell.h"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include "allocators/cuda/cuda_check.h"
#include "allocators/packing/packing.h"
#include "allocators/registry.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "harness/core/cell/cell_result.h"
#include "harness/core/cell/cell_run.h"
#include "harness/core/replay/assumed_work.h"
#include "harness/core/replay/open_job.h"
#include "harness/core/replay/trace_blocks.h"
#include "results/cell_words.h"
#include "workloads/import/recording.h"
#include "workloads/trace/host_requests.h"
#include "workloads/trace/source.h"

namespace allocmark {

bool CellRun::ready() {
  check_key();
  if (over_) return false;
  prepare_trace();
  if (over_) return false;
  prepare_device();
  // The partner has its context by then too, so that both see the same memory free.
  if (turns_ != nullptr && !spec_.in_rounds) (void)turns_->wait();
  enforce_capacity();
  if (over_) return false;
  pack_trace();
  checked_pass();
  if (over_) return false;
  idle_pass();
  contents_pass();
  return !over_;
}

void CellRun::run() {
  if (!ready()) return;
  timed_passes();
}

void CellRun::check_key() {
  resident_bytes_before_ = process_memory(getpid()).resident_bytes;
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
  Recording job = open_job(spec_.key.workload_text(), spec_.key.seed);
  if (is_on_host()) take_host_requests(job.events);
  trace_.emplace(std::move(job.events));
  const TraceFacts& facts = trace_->facts();
  result_.trace_name = trace_->name();
  result_.trace_hash = hash_text(trace_->hash());
  result_.event_count = facts.event_count;
  result_.allocate_count = facts.allocate_count;
  result_.deallocate_count = facts.deallocate_count;
  result_.requested_bytes_peak = facts.requested_bytes_peak;
  result_.rounded_bytes_peak = facts.rounded_bytes_peak;
  result_.failed_before_count = facts.failed_before_count;
  if (facts.work_count > 0) result_.kernel_ns_total = facts.kernel_ns_total;
  if (facts.host_ns_total > 0) result_.host_ns_total = facts.host_ns_total;
  if (facts.event_count == 0) warn_once("the trace has no events");
  for (const std::string& note : job.notes) warn_once("of the recording: " + note);
  if (job.failed_count > 0) {
    result_.counters.emplace_back(kRecordedOomCounter, static_cast<std::int64_t>(job.failed_count));
  }
  const BackendCapabilities claims = entry_->capabilities_for(spec_.key.conf_text());
  if (entry_->warns_uncalled_record && claims.stream_ordered && facts.record_count == 0) {
    warn_once(
        fmt::format("{}: the workload uses no block on another stream, so that its order is "
                    "not tested here ({})",
                    kRecordUncalled, kRecordingWorkloads));
  }
  if (facts.pool_event_count > 0 && !claims.private_pools) {
    result_.status = CellStatus::Skipped;
    result_.reason = "the trace allocates to private pools, which " + spec_.key.allocator +
                     " has not; caching and torch have them";
    over_ = true;
    return;
  }
  if (facts.mark_count == 0 && claims.needs_steps) {
    result_.status = CellStatus::Skipped;
    result_.reason = "the trace marks no steps, and " + spec_.key.allocator +
                     " plans steps; write 'mark,LABEL,0,0' where one begins";
    over_ = true;
    return;
  }
  if (claims.frees_in_reverse && refuse_free_order()) return;
  if (trace_->jobs().empty() || !has_device_) return;
  result_.reason = is_on_host() ? "the processes of this workload share one host, and " +
                                      spec_.key.allocator + " is bounded in one process"
                                : processes_refusal(spec_.key.allocator, spec_.key.conf_text());
  if (result_.reason.empty()) return;
  result_.status = CellStatus::Skipped;
  over_ = true;
}

bool CellRun::refuse_free_order() {
  const std::optional<UnorderedFree> broken = first_unordered_free(*trace_);
  if (!broken) return false;
  result_.status = CellStatus::Skipped;
  result_.reason = fmt::format(
      "event {} of the trace frees block {} before block {}, which was asked for later on the same "
      "stream; {} is a stack and ends there (free_order:any goes on, which its original does not)",
      broken->event_index, broken->block_id, broken->above_block_id, spec_.key.allocator);
  over_ = true;
  return true;
}

void CellRun::take_host_requests(std::unique_ptr<EventSource>& events) {
  if (!has_host_requests(*events)) {
    return warn_once(
        "the workload asks for no pinned memory of the host: what it asks of the device is asked "
        "of the host here");
  }
  events = host_requests_of(std::move(events));
  warn_once(
      "all numbers are of pinned memory of the host; what the workload asks of the device is "
      "left out");
}

void CellRun::pack_trace() {
  constexpr std::size_t kRequestCountMax = 20'000;
  constexpr std::uint64_t kComparisons = 250'000'000;  // about half a second
  if (spec_.packed_bytes > 0) {
    result_.packed_bytes = spec_.packed_bytes;
    return;
  }
  std::optional<TraceBlocks> blocks = blocks_of(*trace_, kRequestCountMax);
  if (!blocks || blocks->lives.empty()) return;
  for (BlockLife& block : blocks->lives) block.size_bytes = bound_rounded(block.size_bytes);
  result_.packed_bytes = pack_quickly(blocks->lives, kComparisons).height_bytes;
}

void CellRun::prepare_device() {
  // The runtime takes memory for its context at the first call; that is done before anything is
  // counted.
  if (has_device_) ALLOCMARK_CUDA_CHECK(cudaFree(nullptr));
  streams_.emplace(trace_->facts().stream_count, has_device_);
  work_ = has_device_ ? make_device_work(simcu_) : make_no_device_work();
  assume_work();
  // Told only with a cell that does not end in time, as its last words.
  const std::string note = gate_stall_note(has_device_ ? trace_->facts().busy_count : 0, simcu_);
  if (!note.empty()) fmt::print(stderr, "{}\n", note);
}

void CellRun::assume_work() {
  const std::uint64_t kernel_ns = assumed_kernel_ns(*trace_, spec_.key.workload_text(),
                                                    spec_.key.allocator, spec_.key.conf_text());
  if (kernel_ns == 0) return;
  if (!simcu_.present && trace_->facts().allocate_count > kBusyRequestCountMax) {
    return warn_once(fmt::format(
        "the recording tells nothing of the device's work, by which the driver's pools decide, and "
        "is too long to keep this GPU busy in every pass: the pool is judged on an idle device; "
        "--kernels {}us keeps it busy",
        kernel_ns / 1000));
  }
  assumed_kernel_ns_ = kernel_ns;
  result_.assumed_kernel_ns = kernel_ns;
}

void CellRun::enforce_capacity() {
  if (!has_device_) {
    if (!capacity_.unlimited()) {
      warn_once(spec_.key.allocator + " has no device memory: the capacity has no effect");
    }
    return;
  }
  if (is_on_host()) return bound_pinned();
  available_bytes_ = usable_device_bytes(simcu_.present);
  if (capacity_.unlimited()) {
    result_.capacity_bytes = available_bytes_;
    return;
  }
  const std::uint64_t capacity_bytes =
      capacity_.resolve_bytes(trace_->facts().requested_bytes_peak);
  result_.capacity_bytes = capacity_bytes;
  if (capacity_.enforcement == CapacityEnforcement::Ballast) {
    ballast_ = Ballast(capacity_bytes);
    available_bytes_ = capacity_bytes;
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
}

// Whole GiB where no capacity is given, so that a little more or less free memory changes nothing.
void CellRun::bound_pinned() {
  const std::uint64_t pinnable_bytes = pinnable_memory_bytes();
  const std::uint64_t asked_bytes = trace_->facts().requested_bytes_peak;
  std::uint64_t bound_bytes =
      pinnable_bytes >= kGiB ? pinnable_bytes / kGiB * kGiB : pinnable_bytes;
  if (!capacity_.unlimited()) {
    bound_bytes = capacity_.resolve_bytes(asked_bytes);
    if (bound_bytes > pinnable_bytes) {
      throw UsageError(ErrorText{.what = "the capacity is larger than what this machine can pin",
                                 .where = "--capacity",
                                 .wanted = "at most " + format_bytes(pinnable_bytes),
                                 .got = format_bytes(bound_bytes),
                                 .next = "choose a smaller capacity, or unlimited"});
    }
  } else if (asked_bytes > bound_bytes) {
    warn_once(
        fmt::format("the workload asks for {} of pinned memory at once, and {} {}: the rest "
                    "fails; 'allocmark pinned --workload' pins nothing",
                    format_bytes(asked_bytes), kMayPin, format_bytes(bound_bytes)));
  }
  available_bytes_ = memory_limit_bytes_ = bound_bytes;
  result_.capacity_bytes = bound_bytes;
}

std::unique_ptr<Backend> CellRun::make_backend() const {
  const BackendOptions options{.conf = spec_.key.conf_text(),
                               .memory_limit_bytes = memory_limit_bytes_};
  if (trace_->jobs().empty() || !has_device_) return entry_->make(options);
  return std::make_unique<ProcessBackends>(*entry_, options, trace_->jobs(), streams_->all());
}

void fail_on_error(CellResult& result, const std::function<void()>& body) {
  const auto fail = [&](const std::string& reason) {
    result.status = CellStatus::Failed;
    result.reason = reason;
  };
  try {
    body();
  } catch (const WriteError&) {
    throw;  // a run whose files cannot be written ends
  } catch (const Error& error) {
    fail(error.what());
  } catch (const std::bad_alloc&) {
    fail("the host has not enough memory for this cell");
  } catch (const std::exception& error) {
    fail(std::string("internal error: ") + error.what() + "; please report it");
  }
}

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

CellResult run_cell(const CellSpec& spec, PassTurns* turns, const PartSink& on_part) {
  const auto begin = std::chrono::steady_clock::now();
  CellResult result;
  result.key = spec.key;
  if (spec.shares_device) result.residue_bytes.reset();
  const std::uint64_t unimplemented_before = unimplemented_calls().count;
  fail_on_error(result, [&] { CellRun(spec, turns, on_part, result).run(); });
  warn_of_unimplemented(result, unimplemented_before);
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (turns != nullptr) result.wall_s -= turns->waited_s();
  if (result.wall_s < 0) {
    result.wall_s = 0;
    warn_once(result, fmt::format("{} while the cell ran: its times mean nothing", kClockWentBack));
  }
  return result;
}

}  // namespace allocmark

#include "harness/core/cell/cell_result.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/median.h"
#include "harness/core/check/pool_watch.h"
#include "harness/core/measure/size_class.h"
#include "harness/core/replay/replay.h"
#include "results/cell_words.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// What each private pool still has: reserved, live, and stranded (results/FAILURES.md).
void fill_private_pools(CellResult& result, const Backend& backend) {
  for (const auto& [id, bytes] : bytes_by_pool(backend)) {
    if (id == 0) continue;
    const std::string name = "private_pool" + std::to_string(id) + ".";
    const auto add = [&](const char* what, std::uint64_t value) {
      result.counters.emplace_back(name + what, static_cast<std::int64_t>(value));
    };
    add("reserved_bytes", bytes.reserved_bytes);
    add("live_bytes", bytes.live_bytes);
    add("stranded_bytes", bytes.stranded_bytes());
  }
}

void note_reuse(CellResult& result, const VerifyReport& report) {
  if (!report.unordered_reuse_count) return;
  result.unordered_reuse_count = report.unordered_reuse_count;
  if (*report.unordered_reuse_count == 0 || report.broken_rule) return;
  warn_once(result,
            std::to_string(*report.unordered_reuse_count) +
                " allocations were handed memory that another stream may still use; " +
                result.key.allocator + " does not promise otherwise" +
                (report.unordered_reuse.empty() ? "" : "; the first: " + report.unordered_reuse));
}

// What the recorded program did without.
void note_failed_before(CellResult& result) {
  if (result.failed_before_count == 0) return;
  warn_once(result, std::to_string(result.failed_before_count) +
                        " requests failed when this was recorded, and the program went on without "
                        "them: they are neither requests nor live here; asked again, " +
                        std::to_string(result.failed_again_count) + " of them fail");
}

// What --on-oom retry-after-sync did.
void note_asked_after_sync(CellResult& result, const ReplayCounts& counts) {
  if (result.key.on_oom != oom_policy_names()[static_cast<std::size_t>(OomPolicy::RetryAfterSync)])
    return;
  result.counters.emplace_back("retry_after_sync.asked",
                               static_cast<std::int64_t>(counts.asked_after_sync_count));
  result.counters.emplace_back("retry_after_sync.served",
                               static_cast<std::int64_t>(counts.served_after_sync_count));
  if (counts.asked_after_sync_count == 0) return;
  warn_once(result, std::to_string(counts.asked_after_sync_count) +
                        " requests failed and were asked once more after the device was done: " +
                        std::to_string(counts.served_after_sync_count) +
                        " of them were served, and are no failures");
}

// The reference beside the passes, and what it makes of host parts.
void fill_host_scale(CellResult& result, const Recorder& sum) {
  std::vector<double> references;
  for (const PassSummary& pass : result.passes) references.push_back(pass.host_reference_ns);
  result.host_reference_ns = median(std::move(references));
  std::vector<double> factors;
  std::vector<double> shifts_ns;
  for (const HostScale& scale : sum.host_scales()) {
    factors.push_back(scale.factor);
    shifts_ns.push_back(scale.shift_ns());
    // The same in all passes.
    result.host_clock_ns = scale.clock_ns;
    result.host_clock_step_ns = scale.clock_step_ns;
  }
  result.host_scale = median(std::move(factors));
  result.host_shift_ns = median(std::move(shifts_ns));
  const LatencySummary allocate = sum.scaled_latency(Operation::Allocate);
  const LatencySummary deallocate = sum.scaled_latency(Operation::Deallocate);
  result.scaled = {.allocate_p50_ns = allocate.p50_ns,
                   .allocate_p99_ns = allocate.p99_ns,
                   .deallocate_p50_ns = deallocate.p50_ns,
                   .deallocate_p99_ns = deallocate.p99_ns};
}

}  // namespace

std::string hash_text(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

void warn_once(CellResult& result, const std::string& text) {
  std::vector<std::string>& warnings = result.warnings;
  if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) warnings.push_back(text);
}

void fill_from(CellResult& result, const VerifyReport& report) {
  result.placement_hash = hash_text(report.placement_hash);
  result.oom_count = report.counts.oom_count;
  result.skipped_free_count = report.counts.skipped_free_count;
  result.failed_again_count = report.counts.failed_again_count;
  result.oom_cause_counts = report.oom_cause_counts;
  result.oom_first = report.oom_first;
  result.allocated_bytes_peak = report.allocated_bytes_peak;
  result.active_bytes_peak = report.active_bytes_peak;
  result.reserved_bytes_peak = report.reserved_bytes_peak;
  result.growth = report.growth;
  result.allocated_bytes_at_reserved_peak = report.allocated_bytes_at_reserved_peak;
  result.requested_bytes_at_reserved_peak = report.requested_bytes_at_reserved_peak;
  result.reserved_bytes_at_requested_peak = report.reserved_bytes_at_requested_peak;
  result.device_bytes_peak = report.device_bytes_peak;
  result.driver_calls = report.driver_calls;
  result.counters.insert(result.counters.end(), report.pool_counters.begin(),
                         report.pool_counters.end());
  note_reuse(result, report);
  note_failed_before(result);
  note_asked_after_sync(result, report.counts);
  if (!report.counts.stopped) return;
  result.status = CellStatus::OomStopped;
  result.reason = "out of memory at event " + std::to_string(report.oom_first->event_index) +
                  ", a request of " + format_bytes(report.oom_first->size_bytes);
}

void fill_from_contents(CellResult& result, const VerifyReport& report) {
  note_reuse(result, report);
  if (report.unmarked_count > 0) {
    warn_once(result, fmt::format("of {} blocks {}: too many kernels waited behind busy ones, or "
                                  "the memory was still in use",
                                  report.unmarked_count, kNotFollowed));
  }
  if (report.edges_only_count > 0) {
    warn_once(result, fmt::format("{} blocks {}: the host's memory stands for the simulated "
                                  "device's, and has a limit",
                                  report.edges_only_count, kEndsOnly));
  }
  if (report.broken_rule) return;
  result.contents_oom_count = report.counts.oom_count;
  result.contents_placement_hash = hash_text(report.placement_hash);
  const std::string difference = contents_difference(result);
  if (!difference.empty()) warn_once(result, difference);
}

void fill_stats(CellResult& result, const Backend& backend) {
  const MemoryStats stats = backend.totals();
  result.device_allocate_count = stats.device_allocate_count;
  result.device_free_count = stats.device_free_count;
  result.retry_count = stats.retry_count;
  result.synchronize_all_count = stats.synchronize_all_count;
  for (NamedCounter& counter : backend.counters()) {
    result.counters.emplace_back(std::move(counter.name), counter.value);
  }
  fill_private_pools(result, backend);
  if (const std::string warning = backend.warning(); !warning.empty())
    warn_once(result, result.key.allocator + ": " + warning);
}

bool narrow_enough(CellResult& result, const WidthRule& rule, double clock_step_ns) {
  const std::vector<std::uint32_t> looks = width_looks(rule);
  if (std::find(looks.begin(), looks.end(), result.pass_count) == looks.end()) return false;
  const WidthFindings findings = find_widths(result, rule, clock_step_ns);
  const bool last = result.pass_count == looks.back();
  if (!findings.too_wide.empty() && !last) return false;
  for (const std::vector<std::string>* list : {&findings.too_wide, &findings.unsupported}) {
    for (const std::string& finding : *list) {
      warn_once(result, fmt::format("{}: {} after {} passes", kWidthNotReached, finding,
                                    result.pass_count));
    }
  }
  return true;
}

void fill_latencies(CellResult& result, const Recorder& sum,
                    std::vector<std::uint64_t> driver_ns_by_pass) {
  result.allocate = sum.latency(Operation::Allocate);
  result.deallocate = sum.latency(Operation::Deallocate);
  fill_host_scale(result, sum);
  result.size_classes.clear();
  for (std::uint32_t i = 0; i < kSizeClassCount; ++i) {
    SizeClassLatency latency{.size_class = std::string(kSizeClassNames[i]),
                             .allocate = sum.latency(Operation::Allocate, i),
                             .deallocate = sum.latency(Operation::Deallocate, i)};
    if (latency.allocate.total.count == 0 && latency.deallocate.total.count == 0) continue;
    result.size_classes.push_back(std::move(latency));
  }
  result.allocator_ns_per_step = sum.step_ns_median();
  if (driver_ns_by_pass.empty()) return;
  std::sort(driver_ns_by_pass.begin(), driver_ns_by_pass.end());
  result.modelled_driver_ns_total =
      static_cast<double>(driver_ns_by_pass[(driver_ns_by_pass.size() - 1) / 2]);
}

void fill_settled(CellResult& result, const SettledPasses& settled) {
  result.allocator_undisturbed_ns_per_step = settled.step_ns;
  result.allocator_scaled_ns_per_step = settled.scaled_step_ns;
  for (std::size_t at = 0; at < settled.passes.size() && at < result.passes.size(); ++at) {
    const SettledPass& from = settled.passes[at];
    PassSummary& pass = result.passes[at];
    pass.allocator_undisturbed_ns_per_step = from.step_ns;
    pass.allocator_undisturbed_ns = from.total_ns;
    pass.allocator_scaled_ns_per_step = from.scaled_step_ns;
    pass.allocator_scaled_ns = from.scaled_total_ns;
  }
}

}  // namespace allocmark

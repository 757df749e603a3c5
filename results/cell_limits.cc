// What no allocator on no machine can have done: more memory than there is, failures that are
// missing, parts that are not the whole.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/cell_check.h"
#include "results/derived.h"
#include "results/latency_histogram.h"

namespace allocmark {
namespace {

using Findings = std::vector<std::string>;

constexpr const char* kNullName = "null";

// Sums of stored means lose some digits.
bool nearly(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)) + 1e-3;
}

// A simulated device is a cell's own, so that what it took and what it left behind are known.
void check_own_device(const CellResult& cell, Findings& findings) {
  const bool own = cell.key.device.starts_with("sim:");
  for (const auto& [name, value] : {std::pair{"device_bytes_peak", cell.device_bytes_peak},
                                    std::pair{"residue_bytes", cell.residue_bytes}}) {
    if (value || !own) continue;
    findings.push_back(fmt::format("{} is null, and no other cell shares a simulated GPU", name));
  }
}

void check_room(const CellResult& cell, Findings& findings) {
  if (cell.key.allocator == kNullName) return;
  const bool all_served = cell.status == CellStatus::Ok && cell.oom_count == 0;
  if (all_served && cell.requested_bytes_peak > cell.capacity_bytes) {
    findings.push_back(fmt::format("no request failed, and {} live bytes do not fit into {}",
                                   cell.requested_bytes_peak, cell.capacity_bytes));
  }
  if (cell.reserved_bytes_peak.value_or(0) > cell.capacity_bytes) {
    findings.push_back(fmt::format("reserved_bytes_peak is {}, more than the capacity of {}",
                                   *cell.reserved_bytes_peak, cell.capacity_bytes));
  }
  if (cell.device_bytes_peak && cell.reserved_bytes_peak.value_or(0) > *cell.device_bytes_peak) {
    findings.push_back(fmt::format("device_bytes_peak is {}, less than reserved_bytes_peak of {}",
                                   *cell.device_bytes_peak, *cell.reserved_bytes_peak));
  }
  if (cell.skipped_free_count > cell.oom_count) {
    findings.push_back(fmt::format("{} frees were left out after {} failed requests",
                                   cell.skipped_free_count, cell.oom_count));
  }
}

// Where nothing failed, every call of every pass has its sample, or none has.
void check_samples(const CellResult& cell, Findings& findings) {
  const bool all_served =
      cell.status == CellStatus::Ok && cell.oom_count == 0 && cell.trial_oom_count == 0;
  if (!all_served || cell.pass_count == 0) return;
  struct Calls {
    std::string_view name;
    std::uint64_t sample_count, call_count;
  };
  for (const Calls& calls :
       {Calls{"allocate", cell.allocate.total.count, cell.allocate_count},
        Calls{"deallocate", cell.deallocate.total.count, cell.deallocate_count}}) {
    if (calls.sample_count == 0 || calls.sample_count == calls.call_count * cell.pass_count) {
      continue;
    }
    findings.push_back(fmt::format("{}_latency_count is {}, and {} calls were served in {} passes",
                                   calls.name, calls.sample_count, calls.call_count,
                                   cell.pass_count));
  }
}

void check_parts(std::string_view name, const OperationLatency& latency, Findings& findings) {
  const LatencySummary& total = latency.total;
  if (latency.host.count == 0 || latency.driver.count == 0) return;
  if (latency.host.count != total.count || latency.driver.count != total.count) {
    findings.push_back(fmt::format("{}: {} samples, of which {} have host time and {} driver time",
                                   name, total.count, latency.host.count, latency.driver.count));
  } else if (!nearly(total.mean_ns, latency.host.mean_ns + latency.driver.mean_ns)) {
    findings.push_back(fmt::format("{}_latency_ns_mean is {:.6g}, host and driver sum to {:.6g}",
                                   name, total.mean_ns,
                                   latency.host.mean_ns + latency.driver.mean_ns));
  }
}

void check_classes(std::string_view name, const CellResult& cell,
                   OperationLatency CellResult::*whole, OperationLatency SizeClassLatency::*part,
                   Findings& findings) {
  const LatencySummary& total = (cell.*whole).total;
  if (cell.size_classes.empty() || total.count == 0) return;
  double sum_ns = 0;
  double max_ns = 0;
  for (const SizeClassLatency& one : cell.size_classes) {
    const LatencySummary& summary = (one.*part).total;
    if (summary.count == 0) continue;
    sum_ns += summary.mean_ns * static_cast<double>(summary.count);
    max_ns = std::max(max_ns, summary.max_ns);
  }
  if (!nearly(sum_ns / static_cast<double>(total.count), total.mean_ns)) {
    findings.push_back(fmt::format("{}_latency_ns_mean is {:.6g}, its size classes give {:.6g}",
                                   name, total.mean_ns, sum_ns / static_cast<double>(total.count)));
  }
  if (!nearly(max_ns, total.max_ns)) {
    findings.push_back(fmt::format("{}_latency_ns_max is {:.6g}, its size classes give {:.6g}",
                                   name, total.max_ns, max_ns));
  }
}

// The calls were made within the passes.
void check_time(const CellResult& cell, Findings& findings) {
  double passes_ns = 0;
  for (const PassSummary& pass : cell.passes) passes_ns += pass.wall_ns;
  double calls_ns = 0;
  for (const OperationLatency* one : {&cell.allocate, &cell.deallocate}) {
    if (one->host.count > 0) calls_ns += one->host.mean_ns * static_cast<double>(one->host.count);
  }
  if (cell.passes.empty() || calls_ns <= passes_ns * (1 + 1e-6)) return;
  findings.push_back(
      fmt::format("calls took {:.6g} ns within passes of {:.6g} ns", calls_ns, passes_ns));
}

// PyTorch's own counters say again what the cell says.
void check_counters(const CellResult& cell, Findings& findings) {
  struct Same {
    std::string_view counter;
    std::string_view field;
    std::optional<std::uint64_t> value;
  };
  const Same pairs[] = {
      {"num_ooms", "oom_count with failed_again_count", cell.oom_count + cell.failed_again_count},
      {"num_alloc_retries", "retry_count", cell.retry_count},
      {"num_device_alloc", "device_allocate_count", cell.device_allocate_count},
      {"num_device_free", "device_free_count", cell.device_free_count},
      {"num_sync_all_streams", "synchronize_all_count", cell.synchronize_all_count},
      {"allocated_bytes.all.peak", "allocated_bytes_peak", cell.allocated_bytes_peak},
      {"active_bytes.all.peak", "active_bytes_peak", cell.active_bytes_peak},
      {"reserved_bytes.all.peak", "reserved_bytes_peak", cell.reserved_bytes_peak},
  };
  for (const auto& [name, value] : cell.counters) {
    const auto* same = std::ranges::find(pairs, name, &Same::counter);
    if (same == std::end(pairs) || !same->value || value < 0) continue;
    if (static_cast<std::uint64_t>(value) == *same->value) continue;
    findings.push_back(
        fmt::format("{} is {}, its counter {} {}", same->field, *same->value, name, value));
  }
}

// The median of all steps lies between those of the passes.
void check_step_time(std::string_view name, double step_ns, std::span<const PassSummary> passes,
                     double PassSummary::*of_pass, Findings& findings) {
  const auto [low, high] =
      std::ranges::minmax(passes, {}, [&](const PassSummary& pass) { return pass.*of_pass; });
  constexpr double kTolerance = 1e-6;
  if (low.*of_pass <= 0 ||
      (step_ns >= low.*of_pass * (1 - kTolerance) && step_ns <= high.*of_pass * (1 + kTolerance))) {
    return;
  }
  findings.push_back(fmt::format("{} is {:.6g}, its passes have {:.6g} to {:.6g}", name, step_ns,
                                 low.*of_pass, high.*of_pass));
}

// What is counted over the passes, or is the median of all their steps.
void check_passes(const CellResult& cell, Findings& findings) {
  const auto& passes = cell.passes;
  if (passes.empty()) return;
  const auto failed = std::ranges::count_if(
      passes, [](const PassSummary& pass) { return pass.oom_count.value_or(0) > 0; });
  const bool all_say = std::ranges::all_of(
      passes, [](const PassSummary& pass) { return pass.oom_count.has_value(); });
  if (all_say && static_cast<std::uint64_t>(failed) != cell.trial_oom_count) {
    findings.push_back(fmt::format("trial_oom_count is {}, {} passes had failed requests",
                                   cell.trial_oom_count, failed));
  }
  check_step_time("allocator_ns_per_step", cell.allocator_ns_per_step, passes,
                  &PassSummary::allocator_ns_per_step, findings);
  check_step_time("allocator_undisturbed_ns_per_step", cell.allocator_undisturbed_ns_per_step,
                  passes, &PassSummary::allocator_undisturbed_ns_per_step, findings);
  check_step_time("allocator_scaled_ns_per_step", cell.allocator_scaled_ns_per_step, passes,
                  &PassSummary::allocator_scaled_ns_per_step, findings);
}

// A disturbed call counts as it usually is, and no less than this; so calls that took less count in
// full (results/TIMES.md, "Disturbed calls").
constexpr double kUndisturbedNs = 10'000;

// What the calls of a pass take at least, by its histograms.
double undisturbed_ns_min(const PassSummary& pass) {
  double sum_ns = 0;
  for (const LatencyBuckets* buckets : {&pass.allocate_buckets, &pass.deallocate_buckets}) {
    for (const LatencyBucket& bucket : *buckets) {
      sum_ns += std::min(bucket_lowest_ns(bucket.index), kUndisturbedNs) *
                static_cast<double>(bucket.count);
    }
  }
  return sum_ns;
}

// Undisturbed calls take no longer than they were measured to. Parts of a pass count with the least
// of all passes, which may be another one's for each part: a loaded host slowed whole passes 1.2
// times. So the bound is half of what the short calls of the quickest pass take.
void check_undisturbed(const CellResult& cell, Findings& findings) {
  constexpr double kTolerance = 1e-3;
  constexpr double kQuickestShare = 0.5;
  double quickest_ns = HUGE_VAL;
  for (const PassSummary& pass : cell.passes) {
    quickest_ns = std::min(quickest_ns, undisturbed_ns_min(pass));
  }
  const double least_ns = kQuickestShare * quickest_ns;
  const auto check_step = [&](std::string_view where, double undisturbed_ns, double measured_ns) {
    if (undisturbed_ns <= measured_ns * (1 + kTolerance)) return;
    findings.push_back(fmt::format("allocator_undisturbed_ns_per_step{} is {:.6g}, {:.6g} measured",
                                   where, undisturbed_ns, measured_ns));
  };
  check_step("", cell.allocator_undisturbed_ns_per_step, cell.allocator_ns_per_step);
  for (const PassSummary& pass : cell.passes) {
    check_step(" of a pass", pass.allocator_undisturbed_ns_per_step, pass.allocator_ns_per_step);
    if (pass.allocator_undisturbed_ns <= 0 || pass.allocator_undisturbed_ns >= least_ns) continue;
    findings.push_back(
        fmt::format("allocator_undisturbed_ns of a pass is {:.6g}, its calls take at least {:.6g}",
                    pass.allocator_undisturbed_ns, least_ns));
  }
}

// Reading a clock takes 10 to 30 ns; a system call's worth for hosts without a counter.
constexpr double kClockCostMaxNs = 1000;

// What scaling can make of times: of each sample the clock's cost here is taken off, at a random
// point of a step of it, the rest multiplied by the scale of the pass, and the other clock's added.
// Driver time stays as it is.
struct ScaledRange {
  double factor_min = 1, factor_max = 1;
  double clock_ns = 0, clock_step_ns = 0, target_clock_ns = 0;

  // A bucket is 1.6 % wide, and so may be the product of two medians.
  static constexpr double kTolerance = 0.05;

  [[nodiscard]] double min_ns(double time_ns, double call_min, double call_max) const {
    const double work_ns = time_ns - call_max * (clock_ns + clock_step_ns / 2);
    return (factor_min * std::max(work_ns, 0.0) + call_min * target_clock_ns) * (1 - kTolerance);
  }
  [[nodiscard]] double max_ns(double time_ns, double call_max) const {
    const double work_ns = time_ns + call_max * clock_step_ns / 2;
    return (factor_max * work_ns + call_max * target_clock_ns) * (1 + kTolerance);
  }
};

std::optional<ScaledRange> scaled_range(const CellResult& cell) {
  if (cell.host_scale <= 0 || cell.host_reference_ns <= 0) return std::nullopt;
  // Where the clock's cost is not stored, it is no less than what the shift took off.
  const double clock_ns = cell.host_clock_ns > 0
                              ? cell.host_clock_ns
                              : std::max(-cell.host_shift_ns, 0.0) / cell.host_scale;
  ScaledRange range{.clock_ns = clock_ns,
                    .clock_step_ns = cell.host_clock_step_ns,
                    .target_clock_ns = cell.host_shift_ns + cell.host_scale * clock_ns};
  for (const PassSummary& pass : cell.passes) {
    if (pass.host_reference_ns <= 0) return std::nullopt;
    const double factor = cell.host_scale * cell.host_reference_ns / pass.host_reference_ns;
    range.factor_min = std::min(range.factor_min, factor);
    range.factor_max = std::max(range.factor_max, factor);
  }
  return range;
}

void check_clocks(const CellResult& cell, Findings& findings) {
  for (const auto& [name, cost_ns] : {std::pair{"host_shift_ns", cell.host_shift_ns},
                                      std::pair{"host_clock_ns", cell.host_clock_ns},
                                      std::pair{"host_clock_step_ns", cell.host_clock_step_ns}}) {
    if (std::abs(cost_ns) <= kClockCostMaxNs) continue;
    findings.push_back(fmt::format("{} is {:.6g}; no clock costs more than {:.6g}", name, cost_ns,
                                   kClockCostMaxNs));
  }
}

void check_scaled(const CellResult& cell, Findings& findings) {
  const std::optional<ScaledRange> range = scaled_range(cell);
  if (!range) return;
  check_clocks(cell, findings);
  struct Scaled {
    std::string_view name;
    double scaled_ns, measured_ns;
    double call_min = 1, call_max = 1;
  };
  // A step has no more calls than the trace has events.
  const auto event_count = static_cast<double>(cell.event_count);
  std::vector<Scaled> all{
      Scaled{"allocate_scaled_latency_ns_p50", cell.scaled.allocate_p50_ns,
             cell.allocate.total.p50_ns},
      Scaled{"allocate_scaled_latency_ns_p99", cell.scaled.allocate_p99_ns,
             cell.allocate.total.p99_ns},
      Scaled{"deallocate_scaled_latency_ns_p50", cell.scaled.deallocate_p50_ns,
             cell.deallocate.total.p50_ns},
      Scaled{"deallocate_scaled_latency_ns_p99", cell.scaled.deallocate_p99_ns,
             cell.deallocate.total.p99_ns},
      Scaled{"allocator_scaled_ns_per_step", cell.allocator_scaled_ns_per_step,
             cell.allocator_undisturbed_ns_per_step > 0 ? cell.allocator_undisturbed_ns_per_step
                                                        : cell.allocator_ns_per_step,
             0, event_count}};
  for (const PassSummary& pass : cell.passes) {
    all.push_back({"allocator_scaled_ns of a pass", pass.allocator_scaled_ns,
                   pass.allocator_undisturbed_ns, 0, event_count});
  }
  for (const Scaled& one : all) {
    if (one.scaled_ns <= 0) continue;
    const double min_ns = range->min_ns(one.measured_ns, one.call_min, one.call_max);
    const double max_ns = range->max_ns(one.measured_ns, one.call_max);
    if (one.scaled_ns >= min_ns && one.scaled_ns <= max_ns) continue;
    findings.push_back(fmt::format("{} is {:.6g}, {:.6g} scaled by {:.3g} to {:.3g}", one.name,
                                   one.scaled_ns, one.measured_ns, range->factor_min,
                                   range->factor_max));
  }
}

}  // namespace

std::vector<std::string> impossibilities(const CellResult& cell) {
  Findings findings;
  if (!is_measured(cell)) return findings;
  check_own_device(cell, findings);
  check_room(cell, findings);
  check_samples(cell, findings);
  check_parts("allocate", cell.allocate, findings);
  check_parts("deallocate", cell.deallocate, findings);
  check_classes("allocate", cell, &CellResult::allocate, &SizeClassLatency::allocate, findings);
  check_classes("deallocate", cell, &CellResult::deallocate, &SizeClassLatency::deallocate,
                findings);
  check_time(cell, findings);
  check_counters(cell, findings);
  check_passes(cell, findings);
  check_undisturbed(cell, findings);
  check_scaled(cell, findings);
  return findings;
}

}  // namespace allocmark

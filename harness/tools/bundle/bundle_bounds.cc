// Times that no machine can have measured, however well they fit each other: less than their parts,
// less than reading a clock takes, an answer before its kernels are through.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "harness/core/bundled/made_again.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/derived.h"
#include "results/latency_histogram.h"
#include "results/schema_version.h"

namespace allocmark {
namespace {

using Findings = std::vector<std::string>;

constexpr int kHistogramsMinor = 1;  // results of schema 1.0 have none

// Of a histogram.
constexpr double kBucketTolerance = 0.02;

struct Quantile {
  std::string_view name;
  double LatencySummary::*value;
};
constexpr Quantile kQuantiles[] = {
    {"p50", &LatencySummary::p50_ns}, {"p90", &LatencySummary::p90_ns},
    {"p99", &LatencySummary::p99_ns}, {"p999", &LatencySummary::p999_ns},
    {"max", &LatencySummary::max_ns}, {"mean", &LatencySummary::mean_ns},
};

struct Named {
  std::string name;
  const LatencySummary& latency;
};

// Where every sample of one is at least that of the other, so is every quantile.
void must_not_be_less(const Named& whole, const Named& part, Findings& findings) {
  if (whole.latency.count == 0 || part.latency.count != whole.latency.count) return;
  for (const Quantile& quantile : kQuantiles) {
    const double total_ns = whole.latency.*quantile.value;
    const double part_ns = part.latency.*quantile.value;
    if (total_ns >= part_ns * (1 - 1e-6) - 1e-3) continue;
    findings.push_back(fmt::format("{}_ns_{} is {:.6g}, less than {}_ns_{} of {:.6g}", whole.name,
                                   quantile.name, total_ns, part.name, quantile.name, part_ns));
  }
}

void check_against_parts(const std::string& name, const OperationLatency& latency,
                         Findings& findings) {
  const Named total{name + "_latency", latency.total};
  must_not_be_less(total, {name + "_host_latency", latency.host}, findings);
  must_not_be_less(total, {name + "_driver_latency", latency.driver}, findings);
}

// A call is read by a clock before and after it. A coarse clock reads 0 for most.
void check_clock(const std::string& name, double p50_ns, double clock_ns, double step_ns,
                 Findings& findings) {
  if (p50_ns == 0 || clock_ns <= 0 || p50_ns + 2 * step_ns >= clock_ns / 2) return;
  findings.push_back(
      fmt::format("{} is {:.3g} ns, less than the {:.3g} ns that reading the clock takes", name,
                  p50_ns, clock_ns));
}

void check_ascending(const Named& named, Findings& findings) {
  const LatencySummary& latency = named.latency;
  const double values[] = {
      0, latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns};
  if (latency.count == 0 || std::ranges::is_sorted(values)) return;
  findings.push_back(fmt::format("the quantiles of requests.{} do not ascend", named.name));
}

void check_requests(const RequestLatency& requests, Findings& findings) {
  const Named latency{"latency", requests.latency};
  const Named first{"first_token_latency", requests.first_token};
  const Named ideal{"ideal_latency", requests.ideal_latency};
  const Named ideal_first{"ideal_first_token_latency", requests.ideal_first_token};
  const Named delay{"delay", requests.delay};
  for (const Named* one : {&latency, &first, &ideal, &ideal_first, &delay}) {
    check_ascending(*one, findings);
  }
  must_not_be_less(latency, ideal, findings);
  must_not_be_less(first, ideal_first, findings);
  must_not_be_less(latency, first, findings);
  must_not_be_less(latency, delay, findings);
  if (requests.delay.count != requests.latency.count) return;
  const double meant_ns = requests.latency.mean_ns - requests.ideal_latency.mean_ns;
  if (std::abs(requests.delay.mean_ns - meant_ns) <= 1e-6 * requests.latency.mean_ns + 1) return;
  findings.push_back(
      fmt::format("requests.delay_ns_mean is {:.6g}, latency and ideal latency differ by {:.6g}",
                  requests.delay.mean_ns, meant_ns));
}

// P99 of all passes' requests lies between those of the passes.
void check_request_passes(const CellResult& cell, Findings& findings) {
  if (cell.passes.empty()) return;
  const auto [low, high] =
      std::ranges::minmax(cell.passes, {}, &PassSummary::request_latency_ns_p99);
  const double p99_ns = cell.requests->latency.p99_ns;
  if (low.request_latency_ns_p99 <= 0 ||
      (p99_ns >= low.request_latency_ns_p99 * (1 - kBucketTolerance) &&
       p99_ns <= high.request_latency_ns_p99 * (1 + kBucketTolerance))) {
    return;
  }
  findings.push_back(
      fmt::format("requests.latency_ns_p99 is {:.6g}, its passes have {:.6g} to "
                  "{:.6g}",
                  p99_ns, low.request_latency_ns_p99, high.request_latency_ns_p99));
}

// Passes were made one after the other, and the cell's time is theirs without waits between them.
void check_passes_in_time(const CellResult& cell, Findings& findings) {
  constexpr double kClocksApart = 1e-3;  // two clocks of one machine
  double end_ns = 0;
  double sum_ns = 0;
  for (const PassSummary& pass : cell.passes) {
    sum_ns += pass.wall_ns;
    if (pass.begin_s <= 0) continue;
    if (pass.begin_s * 1e9 < end_ns * (1 - kClocksApart)) {
      findings.emplace_back("a pass begins before the one before it ends");
      break;
    }
    end_ns = pass.begin_s * 1e9 + pass.wall_ns;
  }
  if (cell.wall_s <= 0 || sum_ns <= cell.wall_s * 1e9 * (1 + kClocksApart)) return;
  findings.push_back(
      fmt::format("wall_s is {:.6g}, its passes took {:.6g} s", cell.wall_s, sum_ns / 1e9));
}

// A step's mean time is that of the middle pass.
void check_steps(const CellResult& cell, Findings& findings) {
  std::vector<double> means_ns;
  for (const PassSummary& pass : cell.passes) means_ns.push_back(pass.step_ns_mean);
  std::ranges::sort(means_ns);
  const double middle_ns = means_ns.empty() ? 0 : means_ns[(means_ns.size() - 1) / 2];
  if (std::abs(middle_ns - cell.step_ns_mean) > 1e-6 * middle_ns) {
    findings.push_back(fmt::format("step_ns_mean is {:.6g}, the median of its passes is {:.6g}",
                                   cell.step_ns_mean, middle_ns));
  }
  if (cell.assumed_kernel_ns.has_value() != cell.idle_oom_count.has_value()) {
    findings.emplace_back("assumed_kernel_ns and idle_oom_count: only one of them is there");
  }
}

// Host parts are scaled to the profile's host, where the profile has one: to nothing else.
void check_host_scale(const CellResult& cell, const Environment& environment, Findings& findings) {
  if (environment.profile_host_reference_ns <= 0 || cell.host_scale <= 0) return;
  std::vector<double> factors;
  for (const PassSummary& pass : cell.passes) {
    if (pass.host_reference_ns <= 0) return;
    factors.push_back(environment.profile_host_reference_ns / pass.host_reference_ns);
  }
  const double meant = median(std::move(factors));
  if (std::abs(cell.host_scale - meant) <= 1e-6 * meant) return;
  findings.push_back(fmt::format("host_scale is {:.6g}, the references of its passes give {:.6g}",
                                 cell.host_scale, meant));
}

// On a GPU the driver's time is part of the host's and never known alone.
void check_gpu(const CellResult& cell, Findings& findings) {
  const bool modelled = cell.allocate.driver.max_ns > 0 || cell.deallocate.driver.max_ns > 0 ||
                        cell.modelled_driver_ns_total > 0;
  if (modelled) findings.emplace_back("driver time of its own, which only a simulated GPU has");
}

}  // namespace

Findings impossible_times(const CellResult& cell, const Environment& environment) {
  Findings findings;
  if (!is_measured(cell)) return findings;
  check_passes_in_time(cell, findings);
  check_steps(cell, findings);
  check_host_scale(cell, environment, findings);
  if (cell.wall_s < 0) findings.push_back(fmt::format("wall_s is {:.6g}", cell.wall_s));
  if (is_gpu(cell.key.device)) check_gpu(cell, findings);
  check_against_parts("allocate", cell.allocate, findings);
  check_against_parts("deallocate", cell.deallocate, findings);
  for (const SizeClassLatency& one : cell.size_classes) {
    check_against_parts(one.size_class + " allocate", one.allocate, findings);
    check_against_parts(one.size_class + " deallocate", one.deallocate, findings);
  }
  const double step_ns = environment.clock_resolution_ns;
  for (const auto& [name, operation] :
       {std::pair{"allocate", &cell.allocate}, std::pair{"deallocate", &cell.deallocate}}) {
    check_clock(fmt::format("{}_host_latency_ns_p50", name), operation->host.p50_ns,
                environment.clock_overhead_ns, step_ns, findings);
  }
  const double scale = std::max(cell.host_scale, 1.0);
  check_clock("allocate_scaled_latency_ns_p50", cell.scaled.allocate_p50_ns,
              environment.profile_clock_overhead_ns, step_ns * scale, findings);
  check_clock("deallocate_scaled_latency_ns_p50", cell.scaled.deallocate_p50_ns,
              environment.profile_clock_overhead_ns, step_ns * scale, findings);
  if (cell.program_ideal_ns > 0 && cell.program_ns < cell.program_ideal_ns * (1 - 1e-9)) {
    findings.push_back(fmt::format("program_ns is {:.6g}, less than program_ideal_ns of {:.6g}",
                                   cell.program_ns, cell.program_ideal_ns));
  }
  if (cell.requests) {
    check_requests(*cell.requests, findings);
    check_request_passes(cell, findings);
  }
  return findings;
}

int schema_minor(const Environment& environment) {
  const auto version = parse_schema_version(environment.schema_version);
  return version ? static_cast<int>(version->minor) : 0;
}

namespace {

constexpr int kPassesMinor = 4;    // what passes cost, and servers' requests in them
constexpr int kScaledMinor = 7;    // host parts scaled to the profile's host
constexpr int kRoundedMinor = 15;  // what no allocator can undercut

// Numbers that every cell has since its version, and without which others are held against nothing.
void check_left_out(const CellResult& cell, const Environment& environment, bool scales,
                    Findings& findings) {
  const int minor = schema_minor(environment);
  const auto left_out = [&](bool is_there, std::string_view name) {
    if (!is_there) findings.push_back(fmt::format("{} is left out", name));
  };
  const auto all_have = [&](double PassSummary::*number) {
    return std::ranges::all_of(cell.passes,
                               [&](const PassSummary& one) { return one.*number > 0; });
  };
  if (minor >= kPassesMinor && cell.requests && cell.requests->latency.count > 0)
    left_out(all_have(&PassSummary::request_latency_ns_p99), "request_latency_ns_p99 of a pass");
  if (minor >= kScaledMinor && scales) {
    left_out(all_have(&PassSummary::host_reference_ns), "host_reference_ns of a pass");
    left_out(cell.host_scale > 0, "host_scale");
    const double readable_ns =
        2 * (environment.clock_overhead_ns + environment.clock_resolution_ns);
    left_out(cell.allocate.total.p50_ns <= readable_ns || cell.scaled.allocate_p50_ns > 0,
             "allocate_scaled_latency_ns_p50");
    left_out(cell.deallocate.total.p50_ns <= readable_ns || cell.scaled.deallocate_p50_ns > 0,
             "deallocate_scaled_latency_ns_p50");
  }
  if (minor >= kRoundedMinor) left_out(cell.rounded_bytes_peak.has_value(), "rounded_bytes_peak");
}

}  // namespace

Findings missing_parts(const CellResult& cell, const Environment& environment, bool scales) {
  Findings findings;
  if (!is_measured(cell) || cell.passes.empty() || schema_minor(environment) < kHistogramsMinor) {
    return findings;
  }
  check_left_out(cell, environment, scales, findings);
  struct Part {
    std::string_view name;
    const LatencySummary& total;
    LatencyBuckets PassSummary::*buckets;
    std::uint64_t call_count;
  };
  const bool all_served = cell.status == CellStatus::Ok && cell.trial_oom_count == 0;
  for (const Part& part :
       {Part{"allocate", cell.allocate.total, &PassSummary::allocate_buckets, cell.allocate_count},
        Part{"deallocate", cell.deallocate.total, &PassSummary::deallocate_buckets,
             cell.deallocate_count}}) {
    std::uint64_t in_histograms = 0;
    for (const PassSummary& pass : cell.passes) in_histograms += sample_count(pass.*part.buckets);
    if (in_histograms != part.total.count) {
      findings.push_back(fmt::format("{}_latency_count is {}, the passes' histograms hold {}",
                                     part.name, part.total.count, in_histograms));
    }
    if (part.total.count > 0 && cell.size_classes.empty()) {
      findings.push_back(fmt::format("{} has samples, and no size class has", part.name));
    }
    if (all_served && part.total.count == 0 && part.call_count > 0) {
      findings.push_back(fmt::format("{} has no samples of {} calls that were served", part.name,
                                     part.call_count));
    }
  }
  return findings;
}

Findings impossible_environment(const Environment& environment) {
  Findings findings;
  if (!is_gpu(environment.device)) return findings;
  if (!environment.profile_name.empty() || !environment.profile_hash.empty()) {
    findings.push_back(
        fmt::format("{} has a profile, which only a simulated GPU has", environment.device));
  }
  return findings;
}

}  // namespace allocmark

// Contradictions within a cell, and samples that it lacks.
#include "results/cell_check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/latency_histogram.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

using Findings = std::vector<std::string>;

struct CheckedOperation {
  std::string_view name;
  OperationLatency CellResult::*latency;
  OperationLatency SizeClassLatency::*class_latency;
  LatencyBuckets PassSummary::*buckets;
  double PassSummary::*pass_p50;
  std::uint64_t CellResult::*event_count;
};

constexpr CheckedOperation kCheckedOperations[] = {
    {"allocate", &CellResult::allocate, &SizeClassLatency::allocate, &PassSummary::allocate_buckets,
     &PassSummary::allocate_p50_ns, &CellResult::allocate_count},
    {"deallocate", &CellResult::deallocate, &SizeClassLatency::deallocate,
     &PassSummary::deallocate_buckets, &PassSummary::deallocate_p50_ns,
     &CellResult::deallocate_count},
};

// The bucket of the nearest-rank quantile; `buckets` is not empty.
const LatencyBucket& bucket_of_quantile(const LatencyBuckets& buckets, Percentile q) {
  const std::uint64_t count = sample_count(buckets);
  const std::uint64_t rank = (count * q.numerator + q.denominator - 1) / q.denominator;
  std::uint64_t seen = 0;
  for (const LatencyBucket& bucket : buckets) {
    seen += bucket.count;
    if (seen >= rank) return bucket;
  }
  return buckets.back();
}

bool lies_in(double value_ns, const LatencyBucket& bucket) {
  // Stored values went through decimal text; the last bucket has no upper end.
  constexpr double kTolerance = 1e-9;
  const double low = bucket_lowest_ns(bucket.index);
  const double high = bucket_lowest_ns(bucket.index + 1);
  return value_ns >= low * (1 - kTolerance) &&
         (bucket.index + 1 == kLatencyBucketCount || value_ns <= high * (1 + kTolerance));
}

void check_quantile(std::string_view name, double stored_ns, const LatencyBuckets& buckets,
                    Percentile q, Findings& findings) {
  const LatencyBucket& bucket = bucket_of_quantile(buckets, q);
  if (lies_in(stored_ns, bucket)) return;
  findings.push_back(fmt::format("{} is {:.6g} ns, its histogram says {:.6g} to {:.6g} ns", name,
                                 stored_ns, bucket_lowest_ns(bucket.index),
                                 bucket_lowest_ns(bucket.index + 1)));
}

void check_order(std::string_view name, const LatencySummary& summary, Findings& findings) {
  if (summary.count == 0) return;
  const double values[] = {
      0, summary.p50_ns, summary.p90_ns, summary.p99_ns, summary.p999_ns, summary.max_ns};
  if (!std::is_sorted(std::begin(values), std::end(values))) {
    findings.push_back(fmt::format("the quantiles of {}_latency_ns do not ascend", name));
  }
  if (summary.mean_ns < 0 || summary.mean_ns > summary.max_ns * (1 + 1e-9)) {
    findings.push_back(fmt::format("{}_latency_ns_mean lies beyond the largest sample", name));
  }
}

void check_mean(std::string_view name, double mean_ns, const LatencyBuckets& buckets,
                Findings& findings) {
  double low = 0;
  double high = 0;
  for (const LatencyBucket& bucket : buckets) {
    if (bucket.index + 1 == kLatencyBucketCount) return;
    low += bucket_lowest_ns(bucket.index) * static_cast<double>(bucket.count);
    high += bucket_lowest_ns(bucket.index + 1) * static_cast<double>(bucket.count);
  }
  const auto count = static_cast<double>(sample_count(buckets));
  if (mean_ns >= low / count * (1 - 1e-9) && mean_ns <= high / count * (1 + 1e-9)) return;
  findings.push_back(
      fmt::format("{}_latency_ns_mean is {:.6g}, its histogram says {:.6g} to {:.6g}", name,
                  mean_ns, low / count, high / count));
}

// Counts and quantiles against the histograms, where every pass has one.
void check_histograms(const CellResult& cell, const CheckedOperation& operation,
                      Findings& findings) {
  const LatencySummary& total = (cell.*operation.latency).total;
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) histograms.push_back(&(pass.*operation.buckets));
  const bool all =
      !histograms.empty() && std::none_of(histograms.begin(), histograms.end(),
                                          [](const auto* one) { return one->empty(); });
  if (!all) return;
  const LatencyBuckets merged = merge_buckets(histograms);
  if (sample_count(merged) != total.count) {
    findings.push_back(fmt::format("{}_latency_count is {}, the passes' histograms hold {}",
                                   operation.name, total.count, sample_count(merged)));
    return;
  }
  const std::string prefix = fmt::format("{}_latency_ns_", operation.name);
  check_quantile(prefix + "p50", total.p50_ns, merged, kP50, findings);
  check_quantile(prefix + "p90", total.p90_ns, merged, kP90, findings);
  check_quantile(prefix + "p99", total.p99_ns, merged, kP99, findings);
  check_quantile(prefix + "p999", total.p999_ns, merged, kP999, findings);
  check_quantile(prefix + "max", total.max_ns, merged, {.numerator = 1, .denominator = 1},
                 findings);
  check_mean(operation.name, total.mean_ns, merged, findings);
  for (std::size_t pass = 0; pass < cell.passes.size(); ++pass) {
    const PassSummary& summary = cell.passes[pass];
    check_quantile(fmt::format("passes[{}].{}p50", pass, prefix), summary.*operation.pass_p50,
                   summary.*operation.buckets, kP50, findings);
  }
  for (std::size_t pass = 0; pass < cell.passes.size() && operation.name == "allocate"; ++pass) {
    const PassSummary& summary = cell.passes[pass];
    check_quantile(fmt::format("passes[{}].{}p99", pass, prefix), summary.allocate_p99_ns,
                   summary.allocate_buckets, kP99, findings);
  }
}

void check_latency(const CellResult& cell, Findings& findings) {
  for (const CheckedOperation& operation : kCheckedOperations) {
    const OperationLatency& latency = cell.*operation.latency;
    check_order(operation.name, latency.total, findings);
    check_order(fmt::format("{}_host", operation.name), latency.host, findings);
    check_order(fmt::format("{}_driver", operation.name), latency.driver, findings);
    check_histograms(cell, operation, findings);
    if (latency.total.count > cell.*operation.event_count * cell.pass_count) {
      findings.push_back(fmt::format("{}_latency_count is {}, {} calls were made in {} passes",
                                     operation.name, latency.total.count,
                                     cell.*operation.event_count, cell.pass_count));
    }
    std::uint64_t in_classes = 0;
    for (const SizeClassLatency& one : cell.size_classes) {
      in_classes += (one.*operation.class_latency).total.count;
    }
    if (!cell.size_classes.empty() && in_classes != latency.total.count) {
      findings.push_back(fmt::format("size_classes hold {} {} samples, the cell {}", in_classes,
                                     operation.name, latency.total.count));
    }
  }
}

void check_counts(const CellResult& cell, Findings& findings) {
  const auto& causes = cell.oom_cause_counts;
  const std::uint64_t by_cause = std::accumulate(causes.begin(), causes.end(), std::uint64_t{0});
  if (by_cause != cell.oom_count) {
    findings.push_back(
        fmt::format("oom_count is {}, its causes sum to {}", cell.oom_count, by_cause));
  }
  if (cell.oom_first.has_value() != (cell.oom_count > 0)) {
    findings.push_back(fmt::format("oom_count is {}, and oom_first is {}", cell.oom_count,
                                   cell.oom_first ? "there" : "null"));
  }
  if (cell.oom_first && cell.oom_first->event_index >= cell.event_count) {
    findings.push_back("oom_first.event_index lies beyond the trace");
  }
  if (cell.oom_count > cell.allocate_count) {
    findings.push_back(
        fmt::format("oom_count is {} of {} requests", cell.oom_count, cell.allocate_count));
  }
  if (cell.status == CellStatus::OomStopped && cell.oom_count != 1) {
    findings.push_back(fmt::format("the trace stopped at its first failed request, oom_count is {}",
                                   cell.oom_count));
  }
  if (cell.allocate_count + cell.deallocate_count > cell.event_count) {
    findings.push_back("more requests and frees than events");
  }
  if (cell.passes.size() != cell.pass_count || cell.trial_count != cell.pass_count) {
    findings.push_back(fmt::format("pass_count is {}, trial_count {}, and {} passes are stored",
                                   cell.pass_count, cell.trial_count, cell.passes.size()));
  }
  if (cell.trial_oom_count > cell.trial_count) {
    findings.push_back("trial_oom_count is above trial_count");
  }
}

void check_memory(const CellResult& cell, Findings& findings) {
  struct Pair {
    std::string_view less_name;
    std::optional<std::uint64_t> less;
    std::string_view more_name;
    std::optional<std::uint64_t> more;
  };
  const Pair pairs[] = {
      {"allocated_bytes_peak", cell.allocated_bytes_peak, "active_bytes_peak",
       cell.active_bytes_peak},
      {"active_bytes_peak", cell.active_bytes_peak, "reserved_bytes_peak",
       cell.reserved_bytes_peak},
      {"allocated_bytes_at_reserved_peak", cell.allocated_bytes_at_reserved_peak,
       "allocated_bytes_peak", cell.allocated_bytes_peak},
      {"requested_bytes_at_reserved_peak", cell.requested_bytes_at_reserved_peak,
       "requested_bytes_peak", cell.requested_bytes_peak},
      {"requested_bytes_peak", cell.requested_bytes_peak, "rounded_bytes_peak",
       cell.rounded_bytes_peak},
      {"rounded_bytes_peak", cell.rounded_bytes_peak, "packed_bytes", cell.packed_bytes},
      {"reserved_bytes_at_requested_peak", cell.reserved_bytes_at_requested_peak,
       "reserved_bytes_peak", cell.reserved_bytes_peak},
  };
  for (const Pair& pair : pairs) {
    if (!pair.less || !pair.more || *pair.less <= *pair.more) continue;
    findings.push_back(fmt::format("{} is {}, more than {}, which is {}", pair.less_name,
                                   *pair.less, pair.more_name, *pair.more));
  }
}

void add_missing(const CellResult& cell, std::string_view name, Percentile percentile,
                 Findings& findings) {
  for (const CheckedOperation& operation : kCheckedOperations) {
    const std::uint64_t count = (cell.*operation.latency).total.count;
    if (count == 0 || cell.pass_count == 0 || has_enough_samples(percentile, count)) continue;
    const std::uint64_t wanted = sample_count_min(percentile);
    const std::uint64_t per_pass = std::max<std::uint64_t>(1, count / cell.pass_count);
    findings.push_back(fmt::format("{} of {} rests on {} samples, {} are needed (--passes {})",
                                   name, operation.name, count, wanted,
                                   (wanted + per_pass - 1) / per_pass));
  }
}

}  // namespace

std::vector<std::string> contradictions(const CellResult& cell) {
  Findings findings;
  if (!is_measured(cell)) {
    if (cell.reason.empty()) {
      findings.push_back(fmt::format("{} without a reason", to_string(cell.status)));
    }
    return findings;
  }
  if (cell.status == CellStatus::Ok && !cell.reason.empty())
    findings.push_back(fmt::format("ok, with a reason: {}", cell.reason));
  check_counts(cell, findings);
  check_memory(cell, findings);
  check_latency(cell, findings);
  return findings;
}

std::vector<std::string> missing_samples(const CellResult& cell, std::uint32_t pass_count_min) {
  Findings findings;
  if (!is_measured(cell)) return findings;
  if (cell.pass_count < pass_count_min) {
    findings.push_back(fmt::format("{} passes, {} are needed to see their spread", cell.pass_count,
                                   pass_count_min));
  }
  add_missing(cell, "P50", kP50, findings);
  return findings;
}

std::vector<std::string> marked_quantiles(const CellResult& cell) {
  Findings findings;
  if (is_measured(cell)) add_missing(cell, "P99", kP99, findings);
  return findings;
}

std::vector<std::string> differing_passes(const CellResult& cell) {
  struct Number {
    const char* name;
    double PassSummary::*value;
    double reach_max;
  };
  constexpr Number kNumbers[] = {
      {"allocate P50", &PassSummary::allocate_p50_ns, kPassP50ReachMax},
      {"allocate P99", &PassSummary::allocate_p99_ns, kPassP99ReachMax},
      {"free P50", &PassSummary::deallocate_p50_ns, kPassP50ReachMax},
  };
  Findings findings;
  if (!is_measured(cell) || cell.passes.size() < kPublishedPassCountMin) return findings;
  for (const Number& number : kNumbers) {
    std::vector<double> values;
    for (const PassSummary& pass : cell.passes) values.push_back(pass.*number.value);
    const double middle = median(values);
    const auto far_count = std::ranges::count_if(
        values, [&](double value) { return std::abs(value - middle) > number.reach_max * middle; });
    const double share = static_cast<double>(far_count) / static_cast<double>(values.size());
    if (share <= kDifferingPassShareMax) continue;
    findings.push_back(fmt::format("{}: {} of {} passes lie more than {:.0f} % from their median",
                                   number.name, far_count, values.size(), 100 * number.reach_max));
  }
  return findings;
}

}  // namespace allocmark

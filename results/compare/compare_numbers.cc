// Takes the compared numbers out of cells and judges the exact ones.
#include "results/compare/compare_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/json.h"

namespace allocmark {
namespace {

enum class Better : std::uint8_t { Less, More, Neither };

using Count = std::optional<std::uint64_t>;

struct ExactNumber {
  const char* name;
  Better better;
  Count (*value)(const CellResult& cell);
};

constexpr std::array kExactNumbers{
    ExactNumber{"oom_count", Better::Less,
                [](const CellResult& c) -> Count { return c.oom_count; }},
    ExactNumber{"oom_first.event_index", Better::More,
                [](const CellResult& c) -> Count {
                  if (!c.oom_first) return std::nullopt;
                  return c.oom_first->event_index;
                }},
    ExactNumber{"reserved_bytes_peak", Better::Less,
                [](const CellResult& c) { return c.reserved_bytes_peak; }},
    ExactNumber{"allocated_bytes_peak", Better::Less,
                [](const CellResult& c) { return c.allocated_bytes_peak; }},
    ExactNumber{"active_bytes_peak", Better::Less,
                [](const CellResult& c) { return c.active_bytes_peak; }},
    // On a GPU others may take memory, too; the same holds for what is left at the end.
    ExactNumber{"device_bytes_peak", Better::Less,
                [](const CellResult& c) -> Count {
                  if (!c.key.device.starts_with("sim:")) return std::nullopt;
                  return c.device_bytes_peak;
                }},
    ExactNumber{"device_allocate_count", Better::Less,
                [](const CellResult& c) { return c.device_allocate_count; }},
    ExactNumber{"device_free_count", Better::Less,
                [](const CellResult& c) { return c.device_free_count; }},
    ExactNumber{"retry_count", Better::Less, [](const CellResult& c) { return c.retry_count; }},
    ExactNumber{"synchronize_all_count", Better::Less,
                [](const CellResult& c) { return c.synchronize_all_count; }},
    ExactNumber{"residue_bytes", Better::Less,
                [](const CellResult& c) -> Count {
                  if (!c.key.device.starts_with("sim:")) return std::nullopt;
                  return c.residue_bytes;
                }},
    ExactNumber{"modelled_driver_ns_total", Better::Less,
                [](const CellResult& c) -> Count {
                  if (!(c.modelled_driver_ns_total >= 0 && c.modelled_driver_ns_total < 1e18)) {
                    return std::nullopt;
                  }
                  return static_cast<std::uint64_t>(c.modelled_driver_ns_total);
                }},
};

constexpr std::array kTimedNumbers{
    TimedNumber{"allocate_latency_ns_p50", true, kP50},
    TimedNumber{"allocate_latency_ns_p99", true, kP99},
    TimedNumber{"deallocate_latency_ns_p50", false, kP50},
    TimedNumber{"deallocate_latency_ns_p99", false, kP99},
};

void judge_numbers(NumberComparison& number, Better better, const ComparePolicy& policy) {
  if (!number.base.has_value() || !number.now.has_value()) {
    number.verdict = Verdict::Changed;
    number.reason = number.base.has_value() ? "NEW does not know it" : "BASE does not know it";
    return;
  }
  const double difference = *number.now - *number.base;
  if (*number.base != 0) number.change = difference / *number.base;
  if (difference == 0) return;
  const double effect_min = policy.effect_min_of(number.name, false);
  if (number.change.has_value() && std::abs(*number.change) <= effect_min) {
    number.reason = fmt::format("within the policy's {:.3g} %", effect_min * 100);
    return;
  }
  if (better == Better::Neither) {
    number.verdict = Verdict::Changed;
  } else {
    number.verdict =
        (difference < 0) == (better == Better::Less) ? Verdict::Better : Verdict::Worse;
  }
}

NumberComparison compare_texts(std::string name, std::string base, std::string now) {
  NumberComparison number{
      .name = std::move(name), .base_text = std::move(base), .now_text = std::move(now)};
  if (number.base_text != number.now_text) number.verdict = Verdict::Changed;
  return number;
}

NumberComparison compare_status(const CellResult& base, const CellResult& now) {
  NumberComparison number = compare_texts("status", std::string(to_string(base.status)),
                                          std::string(to_string(now.status)));
  if (number.verdict == Verdict::Same) return number;
  number.verdict = now.status == CellStatus::OomStopped ? Verdict::Worse : Verdict::Better;
  number.reason = "the trace ends at its first failed request";
  return number;
}

void add_counters(const CellResult& base, const CellResult& now, const ComparePolicy& policy,
                  std::vector<NumberComparison>& numbers) {
  std::map<std::string, NumberComparison> by_name;
  for (const auto& [name, value] : base.counters) {
    by_name[name].base = static_cast<double>(value);
  }
  for (const auto& [name, value] : now.counters) {
    by_name[name].now = static_cast<double>(value);
  }
  // Doubles cannot hold every whole number, and a single count that differs must show.
  const std::map<std::string, std::int64_t> base_exact(base.counters.begin(), base.counters.end());
  const std::map<std::string, std::int64_t> now_exact(now.counters.begin(), now.counters.end());
  for (auto& [name, number] : by_name) {
    number.name = "counters." + name;
    judge_numbers(number, Better::Neither, policy);
    if (number.verdict == Verdict::Same && number.base && number.now && number.base == number.now &&
        base_exact.at(name) != now_exact.at(name)) {
      number.verdict = Verdict::Changed;
    }
    numbers.push_back(std::move(number));
  }
}

// Whoever fails requests holds less and calls less; that is no merit, and serving them no fault.
void excuse_other_work(const CellResult& base, const CellResult& now,
                       std::vector<NumberComparison>& numbers) {
  if (base.oom_count == now.oom_count && base.status == now.status) return;
  for (NumberComparison& number : numbers) {
    const bool judges_failures = number.name == "status" || number.name == "oom_count" ||
                                 number.name == "oom_first.event_index";
    if (judges_failures) continue;
    if (number.verdict != Verdict::Worse && number.verdict != Verdict::Better) continue;
    number.verdict = Verdict::Changed;
    number.reason = "one side failed requests that the other one served";
  }
}

bool has_histograms(const CellResult& cell, const TimedNumber& number) {
  return !cell.passes.empty() &&
         std::all_of(cell.passes.begin(), cell.passes.end(),
                     [&](const PassSummary& pass) { return !buckets_of(pass, number).empty(); });
}

// The quantile as an older version stored it per pass; 0 where it did not.
double stored_pass_quantile(const PassSummary& pass, const TimedNumber& number) {
  if (number.percentile.denominator == kP50.denominator) {
    return number.allocate ? pass.allocate_p50_ns : pass.deallocate_p50_ns;
  }
  return number.allocate ? pass.allocate_p99_ns : 0;
}

// Where a pass's quantiles come from.
struct QuantileSource {
  bool histograms = false;
  double clock_step_ns = 0;
};

void append_side(const CellResult& cell, const TimedNumber& number, const QuantileSource& source,
                 std::vector<double>& logs, std::uint64_t& sample_count_min) {
  for (const PassSummary& pass : cell.passes) {
    const LatencyBuckets& buckets = buckets_of(pass, number);
    const double value =
        source.histograms
            ? resolved_quantile_ns(buckets, number.percentile.share(), source.clock_step_ns)
                  .value_or(0)
            : stored_pass_quantile(pass, number);
    const std::uint64_t count = source.histograms
                                    ? sample_count(buckets)
                                    : total_latency(cell, number).count / cell.passes.size();
    if (!(value > 0) || !std::isfinite(value)) continue;
    logs.push_back(std::log(value));
    sample_count_min = std::min(sample_count_min, count);
  }
}

}  // namespace

const LatencySummary& total_latency(const CellResult& cell, const TimedNumber& number) {
  return number.allocate ? cell.allocate.total : cell.deallocate.total;
}

std::vector<NumberComparison> compare_exact(const CellResult& base, const CellResult& now,
                                            const ComparePolicy& policy) {
  std::vector<NumberComparison> numbers;
  numbers.push_back(compare_status(base, now));
  numbers.push_back(compare_texts("placement_hash", base.placement_hash, now.placement_hash));
  for (const ExactNumber& exact : kExactNumbers) {
    const Count before = exact.value(base);
    const Count after = exact.value(now);
    if (!before && !after) continue;
    NumberComparison number{.name = exact.name};
    if (before) number.base = static_cast<double>(*before);
    if (after) number.now = static_cast<double>(*after);
    // Where only one side has a first failed request, oom_count says it.
    if (exact.better == Better::More && (!before || !after)) continue;
    judge_numbers(number, exact.better, policy);
    numbers.push_back(std::move(number));
  }
  add_counters(base, now, policy, numbers);
  excuse_other_work(base, now, numbers);
  if (is_deterministic(base) && is_deterministic(now)) return numbers;
  for (NumberComparison& number : numbers) {
    if (number.verdict == Verdict::Same) continue;
    number.verdict = Verdict::Undecided;
    number.reason = "the cell's own passes did not decide alike";
  }
  return numbers;
}

std::span<const TimedNumber> timed_numbers() { return kTimedNumbers; }

const LatencyBuckets& buckets_of(const PassSummary& pass, const TimedNumber& number) {
  return number.allocate ? pass.allocate_buckets : pass.deallocate_buckets;
}

std::vector<double> pass_logs(const CellResult& cell, const TimedNumber& number,
                              double clock_step_ns) {
  std::vector<double> logs;
  for (const PassSummary& pass : cell.passes) {
    const auto value =
        resolved_quantile_ns(buckets_of(pass, number), number.percentile.share(), clock_step_ns);
    if (!value || *value <= 0) return {};
    logs.push_back(std::log(*value));
  }
  return logs;
}

PassQuantiles pass_quantiles(const CellResult& base, const CellResult& now,
                             const TimedNumber& number, double clock_step_ns) {
  PassQuantiles quantiles{.sample_count_min = UINT64_MAX};
  quantiles.known = total_latency(base, number).count > 0 && total_latency(now, number).count > 0;
  if (!quantiles.known) return quantiles;
  const QuantileSource source{
      .histograms = has_histograms(base, number) && has_histograms(now, number),
      .clock_step_ns = clock_step_ns};
  append_side(base, number, source, quantiles.base, quantiles.sample_count_min);
  append_side(now, number, source, quantiles.now, quantiles.sample_count_min);
  if (quantiles.base.empty() && quantiles.now.empty()) quantiles.sample_count_min = 0;
  return quantiles;
}

std::optional<Estimate> pooled_quantile(const CellResult& cell, const TimedNumber& number,
                                        double confidence) {
  if (!has_histograms(cell, number)) return std::nullopt;
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) histograms.push_back(&buckets_of(pass, number));
  return quantile_interval_ns(merge_buckets(histograms), number.percentile.share(), confidence);
}

std::optional<double> stored_quantile(const CellResult& cell, const TimedNumber& number) {
  const LatencySummary& summary = total_latency(cell, number);
  if (summary.count == 0) return std::nullopt;
  const double value =
      number.percentile.denominator == kP50.denominator ? summary.p50_ns : summary.p99_ns;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

bool is_deterministic(const CellResult& cell) {
  return std::none_of(cell.warnings.begin(), cell.warnings.end(), [](const std::string& warning) {
    return warning.starts_with("not deterministic");
  });
}

}  // namespace allocmark

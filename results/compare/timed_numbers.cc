// The table of timed numbers, and how each comes out of a stored cell.
#include "results/compare/timed_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/median.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// The slowest calls of a pass are the machine's: an interrupt takes microseconds.
constexpr double kMeanShare = 0.995;
constexpr std::uint64_t kMeanSampleCountMin = 200;

// What a number is of its calls, and how far it scatters: results/compare/VERDICTS.md, "Timed
// numbers".
constexpr TimedNumber kMiddle{.percentile = kP50, .floor_factor = 1, .between_runs = 0.07};
constexpr TimedNumber kTail95{.percentile = kP95, .floor_factor = 5.0 / 3, .between_runs = 0.20};
constexpr TimedNumber kTail99{.percentile = kP99, .floor_factor = 2, .between_runs = 0.30};
constexpr TimedNumber kTail999{
    .percentile = kP999, .floor_factor = 50.0 / 3, .between_runs = 2.0, .rare = true};
constexpr TimedNumber kMean{.kind = TimedKind::Mean, .floor_factor = 4.0 / 3, .between_runs = 0.12};
constexpr TimedNumber kLongest{
    .kind = TimedKind::Longest, .floor_factor = 100, .between_runs = 10, .rare = true};

enum class Call : std::uint8_t { Allocate, Free };

// Of the calls with the driver's time.
constexpr TimedNumber latency(std::string_view name, std::string_view shown, Call call,
                              TimedNumber number) {
  number.name = name;
  number.shown = shown;
  number.allocate = call == Call::Allocate;
  return number;
}

// Of the allocator's own code in the calls.
constexpr TimedNumber own(std::string_view name, std::string_view shown, Call call,
                          TimedNumber number) {
  number.own = true;
  return latency(name, shown, call, number);
}

constexpr std::array kNumbers{
    latency("allocate_latency_ns_p50", "allocate P50", Call::Allocate, kMiddle),
    latency("allocate_latency_ns_p99", "allocate P99", Call::Allocate, kTail99),
    latency("deallocate_latency_ns_p50", "free P50", Call::Free, kMiddle),
    latency("deallocate_latency_ns_p99", "free P99", Call::Free, kTail99),
    own("allocate_own_ns_p50", "allocate own P50", Call::Allocate, kMiddle),
    own("allocate_own_ns_p95", "allocate own P95", Call::Allocate, kTail95),
    own("allocate_own_ns_p99", "allocate own P99", Call::Allocate, kTail99),
    own("allocate_own_ns_mean", "allocate own mean", Call::Allocate, kMean),
    own("deallocate_own_ns_p50", "free own P50", Call::Free, kMiddle),
    own("deallocate_own_ns_p95", "free own P95", Call::Free, kTail95),
    own("deallocate_own_ns_p99", "free own P99", Call::Free, kTail99),
    own("deallocate_own_ns_mean", "free own mean", Call::Free, kMean),
    own("allocate_own_ns_p999", "allocate own P99.9", Call::Allocate, kTail999),
    own("deallocate_own_ns_p999", "free own P99.9", Call::Free, kTail999),
    own("allocate_own_ns_max", "longest allocate", Call::Allocate, kLongest),
    own("deallocate_own_ns_max", "longest free", Call::Free, kLongest),
    TimedNumber{.name = "thread_cpu_ns",
                .shown = "processor time",
                .kind = TimedKind::Cpu,
                .floor_factor = 5.0 / 3,
                .between_runs = 0.20,
                .rare = true},
    TimedNumber{.name = "allocator_ns_per_step",
                .shown = "time per step",
                .kind = TimedKind::Step,
                .floor_factor = 5.0 / 3,
                .between_runs = 0.20},
    TimedNumber{.name = "step_ns_mean",
                .shown = "wall time per step",
                .kind = TimedKind::Wall,
                .floor_factor = 1,
                .between_runs = 0.07},
    TimedNumber{.name = "cold_ns",
                .shown = "first 256 calls",
                .kind = TimedKind::Cold,
                .own = true,
                .floor_factor = 50.0 / 3,
                .between_runs = 2.0},
};
constexpr std::size_t kLatencyNumberCount = 4;

// Of one value a pass; 0 where the pass has none.
double step_ns(const PassSummary& pass, const TimedNumber& number) {
  return number.kind == TimedKind::Wall ? pass.step_ns_mean : pass.allocator_ns_per_step;
}

bool is_of_step(const TimedNumber& number) {
  return number.kind == TimedKind::Step || number.kind == TimedKind::Wall;
}

// Longest and P99.9 are of all passes together.
std::uint64_t pooled_count(const CellResult& cell, const TimedNumber& number) {
  std::uint64_t count = 0;
  for (const PassSummary& pass : cell.passes) count += sample_count(buckets_of(cell, pass, number));
  return count;
}

double mean_cpu_ns(const CellResult& cell) {
  double sum_ns = 0;
  for (const PassSummary& pass : cell.passes) sum_ns += pass.thread_cpu_ns;
  return cell.passes.empty() ? 0 : sum_ns / static_cast<double>(cell.passes.size());
}

bool is_simulated_cell(const CellResult& cell) { return cell.key.device.starts_with("sim:"); }

}  // namespace

std::span<const TimedNumber> timed_numbers() { return kNumbers; }

std::span<const TimedNumber> latency_numbers() {
  return std::span(kNumbers).first(kLatencyNumberCount);
}

const TimedNumber* find_timed_number(std::string_view name) {
  const auto found = std::find_if(kNumbers.begin(), kNumbers.end(),
                                  [&](const TimedNumber& number) { return number.name == name; });
  return found == kNumbers.end() ? nullptr : &*found;
}

bool has_number(const CellResult& cell, const TimedNumber& number) {
  switch (number.kind) {
    case TimedKind::Cold:
      return cell.cold_ns > 0;
    case TimedKind::Wall:
      if (!knows_wall_time(cell)) return false;
      [[fallthrough]];
    case TimedKind::Step:
      return std::ranges::any_of(
          cell.passes, [&](const PassSummary& pass) { return step_ns(pass, number) > 0; });
    case TimedKind::Cpu:
      return mean_cpu_ns(cell) > 0;
    case TimedKind::Longest:
      return is_simulated_cell(cell) && pooled_count(cell, number) >= kMeanSampleCountMin;
    case TimedKind::Quantile:
      if (!number.rare) break;
      return is_simulated_cell(cell) &&
             has_enough_samples(number.percentile, pooled_count(cell, number));
    case TimedKind::Mean:
      break;
  }
  if (!number.own) return true;
  // On a GPU the P50 and P99 are the latency's, which are there already.
  const bool again = !is_simulated_cell(cell) && number.kind == TimedKind::Quantile &&
                     number.percentile.denominator != kP95.denominator;
  return !again && std::any_of(cell.passes.begin(), cell.passes.end(), [&](const auto& pass) {
    return !buckets_of(cell, pass, number).empty();
  });
}

const LatencyBuckets& buckets_of(const CellResult& cell, const PassSummary& pass,
                                 const TimedNumber& number) {
  static const LatencyBuckets kNone;
  const bool is_of_calls = number.kind == TimedKind::Quantile || number.kind == TimedKind::Mean ||
                           number.kind == TimedKind::Longest;
  if (!is_of_calls) return kNone;
  if (number.own && is_simulated_cell(cell)) {
    return number.allocate ? pass.allocate_own_buckets : pass.deallocate_own_buckets;
  }
  return number.allocate ? pass.allocate_buckets : pass.deallocate_buckets;
}

bool is_of_process(const TimedNumber& number) {
  return number.rare || number.kind == TimedKind::Cold;
}

std::uint64_t samples_wanted(const TimedNumber& number) {
  switch (number.kind) {
    case TimedKind::Quantile:
      return sample_count_min(number.percentile);
    case TimedKind::Mean:
    case TimedKind::Longest:
      return kMeanSampleCountMin;
    case TimedKind::Cpu:
    case TimedKind::Step:
    case TimedKind::Wall:
    case TimedKind::Cold:
      break;
  }
  return 1;
}

std::uint64_t samples_of(const CellResult& cell, const PassSummary& pass,
                         const TimedNumber& number) {
  if (number.kind == TimedKind::Cold) return cell.cold_ns > 0 ? 1 : 0;
  if (number.kind == TimedKind::Cpu) return pass.thread_cpu_ns > 0 ? 1 : 0;
  if (is_of_step(number)) return step_ns(pass, number) > 0 ? 1 : 0;
  return sample_count(buckets_of(cell, pass, number));
}

std::optional<double> value_ns(const LatencyBuckets& buckets, const TimedNumber& number,
                               double clock_step_ns) {
  if (number.kind == TimedKind::Mean) return trimmed_mean_ns(buckets, kMeanShare);
  if (number.kind == TimedKind::Longest) {
    return buckets.empty() ? std::nullopt : std::optional(bucket_lowest_ns(buckets.back().index));
  }
  return resolved_quantile_ns(buckets, number.percentile.share(), clock_step_ns);
}

std::vector<double> pass_logs(const CellResult& cell, const TimedNumber& number,
                              double clock_step_ns) {
  if (number.kind == TimedKind::Cold) {
    return cell.cold_ns > 0 ? std::vector{std::log(cell.cold_ns)} : std::vector<double>{};
  }
  if (number.rare) {
    const std::optional<double> value = process_log(cell, number, clock_step_ns);
    return value ? std::vector{*value} : std::vector<double>{};
  }
  std::vector<double> logs;
  for (const PassSummary& pass : cell.passes) {
    const std::optional<double> value =
        is_of_step(number) ? std::optional(step_ns(pass, number))
                           : value_ns(buckets_of(cell, pass, number), number, clock_step_ns);
    if (!value || *value <= 0) return {};
    logs.push_back(std::log(*value));
  }
  return logs;
}

std::optional<double> process_log(const CellResult& cell, const TimedNumber& number,
                                  double clock_step_ns) {
  if (number.kind == TimedKind::Cpu) {
    const double mean_ns = mean_cpu_ns(cell);
    return mean_ns > 0 ? std::optional(std::log(mean_ns)) : std::nullopt;
  }
  if (is_of_step(number) || number.kind == TimedKind::Cold) {
    const std::vector<double> logs = pass_logs(cell, number, clock_step_ns);
    return logs.empty() ? std::nullopt : std::optional(median(logs));
  }
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) {
    histograms.push_back(&buckets_of(cell, pass, number));
  }
  const auto value = value_ns(merge_buckets(histograms), number, clock_step_ns);
  return value && *value > 0 ? std::optional(std::log(*value)) : std::nullopt;
}

std::optional<double> stored_value(const CellResult& cell, const TimedNumber& number) {
  double value = 0;
  if (number.kind == TimedKind::Cold) {
    value = cell.cold_ns;
  } else if (number.kind == TimedKind::Cpu) {
    value = mean_cpu_ns(cell);
  } else if (number.kind == TimedKind::Step) {
    value = cell.allocator_ns_per_step;
  } else if (number.kind == TimedKind::Wall) {
    value = cell.step_ns_mean;
  } else if (number.own) {
    const auto log = process_log(cell, number, 0);
    value = log ? std::exp(*log) : 0;
  } else {
    const LatencySummary& summary = number.allocate ? cell.allocate.total : cell.deallocate.total;
    value = number.percentile.denominator == kP50.denominator ? summary.p50_ns : summary.p99_ns;
    if (summary.count == 0) return std::nullopt;
  }
  return value > 0 && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

}  // namespace allocmark

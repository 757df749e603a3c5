// Takes the compared numbers out of cells and judges the exact ones.
#include "results/compare/compare_numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "results/compare/compare_calls.h"
#include "results/compare/compare_host.h"
#include "results/compare/count_verdict.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

// LessOrFault: more is worse, and fewer may be a merit or a fault.
enum class Better : std::uint8_t { Less, More, LessOrFault, Neither };

using Count = std::optional<std::uint64_t>;

struct ExactNumber {
  const char* name;
  Better better;
  Count (*value)(const CellResult& cell);
};

constexpr const char* kReserved = "reserved_bytes_peak";

constexpr std::array kExactNumbers{
    ExactNumber{"oom_first.event_index", Better::More,
                [](const CellResult& c) -> Count {
                  if (!c.oom_first) return std::nullopt;
                  return c.oom_first->event_index;
                }},
    ExactNumber{kReserved, Better::Less, [](const CellResult& c) { return c.reserved_bytes_peak; }},
    ExactNumber{"allocated_bytes_peak", Better::Less,
                [](const CellResult& c) { return c.allocated_bytes_peak; }},
    ExactNumber{"active_bytes_peak", Better::Less,
                [](const CellResult& c) { return c.active_bytes_peak; }},
    // On a GPU others may take memory, too.
    ExactNumber{"device_bytes_peak", Better::Less,
                [](const CellResult& c) -> Count {
                  if (!c.key.device.starts_with("sim:")) return std::nullopt;
                  return c.device_bytes_peak;
                }},
    ExactNumber{"device_allocate_count", Better::Less,
                [](const CellResult& c) { return c.device_allocate_count; }},
    ExactNumber{"device_free_count", Better::LessOrFault,
                [](const CellResult& c) { return c.device_free_count; }},
    ExactNumber{"retry_count", Better::Less, [](const CellResult& c) { return c.retry_count; }},
    ExactNumber{"synchronize_all_count", Better::LessOrFault,
                [](const CellResult& c) { return c.synchronize_all_count; }},
};

// Counted in every pass; more is worse.
struct SafetyNumber {
  const char* name;
  bool shared_on_gpu;  // others can reach it there
  Count (*checked)(const CellResult& cell);
  Count (*timed)(const PassSummary& pass);
};

constexpr std::array kSafetyNumbers{
    SafetyNumber{"oom_count", false, [](const CellResult& c) -> Count { return c.oom_count; },
                 [](const PassSummary& p) { return p.oom_count; }},
    SafetyNumber{"residue_bytes", true,
                 [](const CellResult& c) -> Count { return c.residue_bytes; },
                 [](const PassSummary& p) { return p.residue_bytes; }},
    SafetyNumber{"unordered_reuse_count", false,
                 [](const CellResult& c) { return c.unordered_reuse_count; },
                 [](const PassSummary&) -> Count { return std::nullopt; }},
};

void judge_numbers(NumberComparison& number, Better better, const ComparePolicy& policy) {
  if (!number.base.has_value() || !number.now.has_value()) {
    number.decide(Verdict::Changed,
                  number.base.has_value() ? "NEW does not know it" : "BASE does not know it");
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
  } else if (better == Better::LessOrFault) {
    number.verdict = difference < 0 ? Verdict::Changed : Verdict::Worse;
    if (difference < 0) number.reason = kFewerReason;
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
  number.decide(now.status == CellStatus::OomStopped ? Verdict::Worse : Verdict::Better,
                "the trace ends at its first failed request");
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

// How far each side is from what the program could do with.
void name_regret(const CellResult& base, const CellResult& now, NumberComparison& number) {
  const std::optional<double> before = regret_share(base), after = regret_share(now);
  if (!before || !after || number.verdict == Verdict::Same || !number.reason.empty()) return;
  number.reason = fmt::format("regret {:.1f} % -> {:.1f} %", *before * 100, *after * 100);
}

// Whoever fails requests holds less and calls less; that is no merit, and serving them no fault.
void excuse_other_work(const CellResult& base, const CellResult& now,
                       std::vector<NumberComparison>& numbers) {
  if (base.oom_count == now.oom_count && base.status == now.status) return;
  for (NumberComparison& number : numbers) {
    const bool judges_failures =
        number.safety || number.name == "status" || number.name == "oom_first.event_index";
    if (judges_failures) continue;
    if (number.verdict != Verdict::Worse && number.verdict != Verdict::Better) continue;
    number.decide(Verdict::Changed, "one side failed requests that the other one served");
  }
}

CountSeries series_of(const SafetyNumber& number, const Processes& processes) {
  CountSeries series;
  for (const CellResult* cell : processes) {
    const Count checked = number.checked(*cell);
    // Later rounds of an A/B run do not check again.
    if (!checked) continue;
    std::vector<double>& values = series.emplace_back(1, static_cast<double>(*checked));
    for (const PassSummary& pass : cell->passes) {
      const Count count = number.timed(pass);
      if (count) values.push_back(static_cast<double>(*count));
    }
  }
  return series;
}

void add_safety(const ExactSides& sides, const ComparePolicy& policy,
                std::vector<NumberComparison>& numbers) {
  const bool simulated = sides.base->key.device.starts_with("sim:");
  for (const SafetyNumber& safety : kSafetyNumbers) {
    const CountSeries base = series_of(safety, sides.base_processes);
    const CountSeries now = series_of(safety, sides.now_processes);
    // An older version did not count it.
    if (base.empty() || now.empty()) continue;
    NumberComparison number{.name = safety.name, .safety = true};
    judge_counts(base, now, safety.shared_on_gpu && !simulated, number);
    const double floor = policy.effect_min_of(number.name, false);
    if (number.verdict == Verdict::Worse && number.change && *number.change <= floor) {
      number.decide(Verdict::Same, fmt::format("within the policy's {:.3g} %", floor * 100));
    }
    numbers.push_back(std::move(number));
  }
}

bool has_histograms(const CellResult& cell, const TimedNumber& number) {
  return !cell.passes.empty() &&
         std::all_of(cell.passes.begin(), cell.passes.end(), [&](const PassSummary& pass) {
           return !buckets_of(cell, pass, number).empty();
         });
}

// The quantile as an older version stored it per pass; 0 where it did not.
double stored_pass_quantile(const PassSummary& pass, const TimedNumber& number) {
  if (number.percentile.denominator == kP50.denominator) {
    return number.allocate ? pass.allocate_p50_ns : pass.deallocate_p50_ns;
  }
  return number.allocate ? pass.allocate_p99_ns : 0;
}

// An older version stored quantiles per pass instead of histograms.
void append_stored(const CellResult& cell, const TimedNumber& number, std::vector<double>& logs,
                   std::uint64_t& sample_count_min) {
  const LatencySummary& total = number.allocate ? cell.allocate.total : cell.deallocate.total;
  for (const PassSummary& pass : cell.passes) {
    const double value = stored_pass_quantile(pass, number);
    if (!(value > 0) || !std::isfinite(value)) continue;
    logs.push_back(std::log(value));
    sample_count_min = std::min(sample_count_min, total.count / cell.passes.size());
  }
}

void append_side(const CellResult& cell, const TimedNumber& number, double clock_step_ns,
                 std::vector<double>& logs, std::uint64_t& sample_count_min) {
  logs = pass_logs(cell, number, clock_step_ns);
  for (const PassSummary& pass : cell.passes) {
    sample_count_min = std::min(sample_count_min, samples_of(cell, pass, number));
  }
}

}  // namespace

std::vector<NumberComparison> compare_exact(const ExactSides& sides, const ComparePolicy& policy) {
  const CellResult& base = *sides.base;
  const CellResult& now = *sides.now;
  std::vector<NumberComparison> numbers;
  add_safety(sides, policy, numbers);
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
    if (number.name == kReserved) name_regret(base, now, number);
    numbers.push_back(std::move(number));
  }
  add_driver_calls(sides, numbers);
  add_counters(base, now, policy, numbers);
  excuse_other_work(base, now, numbers);
  if (!is_deterministic(base) || !is_deterministic(now)) {
    for (NumberComparison& number : numbers) {
      if (number.verdict == Verdict::Same || number.safety || number.name == "status") continue;
      number.decide(Verdict::Undecided, "the passes differ among themselves");
    }
  }
  add_host_numbers(sides, policy, numbers);
  return numbers;
}

bool rests_on_all_processes(const NumberComparison& number) {
  return number.safety || number.name.starts_with("driver_calls.") ||
         number.name.starts_with(kLiveObjects) || number.name == "host_taken_bytes" ||
         number.name == "other_threads_ns_per_s";
}

void share_texts(TextPool& texts, NumberComparison& number) {
  texts.share(number.name);
  texts.share(number.reason);
  if (number.name == "status") texts.share(number.base_text);
  if (number.now_text == number.base_text) number.now_text = number.base_text;
}

std::string other_requests(const Processes& base, const Processes& now) {
  const auto failed = [](const Processes& processes) {
    std::uint64_t count = 0;
    for (const CellResult* cell : processes) {
      count += cell->oom_count;
      for (const PassSummary& pass : cell->passes) count += pass.oom_count.value_or(0);
    }
    return count;
  };
  if (failed(base) == 0 && failed(now) == 0) return {};
  const bool alike = std::equal(
      base.begin(), base.end(), now.begin(), now.end(), [](const auto* a, const auto* b) {
        const bool same_first =
            a->oom_first.has_value() == b->oom_first.has_value() &&
            (!a->oom_first || a->oom_first->event_index == b->oom_first->event_index);
        // How many passes each process made is the machine's doing.
        const std::size_t pass_count = std::min(a->passes.size(), b->passes.size());
        const bool same_passes = std::equal(
            a->passes.begin(), a->passes.begin() + static_cast<std::ptrdiff_t>(pass_count),
            b->passes.begin(), [](const PassSummary& one, const PassSummary& other) {
              return one.oom_count == other.oom_count;
            });
        return a->oom_count == b->oom_count && a->status == b->status && same_first && same_passes;
      });
  return alike ? "" : "not compared: one side failed requests that the other one served";
}

PassQuantiles pass_quantiles(const CellResult& base, const CellResult& now,
                             const TimedNumber& number, double clock_step_ns) {
  PassQuantiles quantiles{.sample_count_min = UINT64_MAX};
  quantiles.known = stored_value(base, number).has_value() && stored_value(now, number).has_value();
  if (!quantiles.known) return quantiles;
  const bool stored = number.kind == TimedKind::Quantile && !number.own &&
                      !(has_histograms(base, number) && has_histograms(now, number));
  if (stored) {
    append_stored(base, number, quantiles.base, quantiles.sample_count_min);
    append_stored(now, number, quantiles.now, quantiles.sample_count_min);
  } else {
    append_side(base, number, clock_step_ns, quantiles.base, quantiles.sample_count_min);
    append_side(now, number, clock_step_ns, quantiles.now, quantiles.sample_count_min);
  }
  if (quantiles.base.empty() && quantiles.now.empty()) quantiles.sample_count_min = 0;
  return quantiles;
}

std::optional<Estimate> pooled_quantile(const CellResult& cell, const TimedNumber& number,
                                        double confidence) {
  if (number.kind != TimedKind::Quantile || !has_histograms(cell, number)) return std::nullopt;
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) {
    histograms.push_back(&buckets_of(cell, pass, number));
  }
  return quantile_interval_ns(merge_buckets(histograms), number.percentile.share(), confidence);
}

}  // namespace allocmark

// Costs in words. One unit of time for all costs of an experiment.
#include "results/answer/answer_parts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"

namespace allocmark {
namespace {

struct TimeUnit {
  double divisor;
  const char* name;
};
constexpr std::array<TimeUnit, 4> kTimeUnits{{{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}}};

// The unit that leaves a time at least 1.
TimeUnit unit_of(double time_ns) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (time_ns >= unit.divisor) return unit;
  }
  return kTimeUnits.back();
}

// That of the largest cost.
TimeUnit time_unit(const Answer& answer) {
  double largest_ns = answer.baseline_cost ? answer.baseline_cost->value_ns : 0;
  for (const auto* list : {&answer.settable, &answer.others}) {
    for (const RankedCell& one : *list) {
      if (one.cost) largest_ns = std::max(largest_ns, one.cost->value_ns);
    }
  }
  return unit_of(largest_ns);
}

// Three significant figures, without an exponent.
std::string three_figures(double value) {
  if (value == 0) return "0";
  const int whole_digits = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return fmt::format("{:.{}f}", value, std::clamp(3 - whole_digits, 0, 6));
}

std::string time_text(double value_ns, const TimeUnit& unit) {
  return three_figures(value_ns / unit.divisor) + " " + unit.name;
}

std::string difference_text(const RankedCell& ranked, const TimeUnit& unit) {
  const double difference_ns = *ranked.difference_ns;
  return fmt::format("{}{} against unset{}", difference_ns < 0 ? "-" : "+",
                     time_text(std::abs(difference_ns), unit),
                     ranked.may_be_noise || !ranked.range_known ? "?" : "");
}

// "dear in 1 of 3 passes"; empty where none is.
std::string dear_text(const CellCost& cost) {
  if (cost.dear_pass_count == 0) return {};
  return fmt::format("dear in {} of {} passes", cost.dear_pass_count, cost.pass_count);
}

}  // namespace

CostWords cost_words(CostMetric metric) {
  switch (metric) {
    case CostMetric::RequestP99:
      return {"request P99", "latency_ns_{p50,p90,p99,p999,max,mean}", " request P99"};
    case CostMetric::WallPerStep:
      return {"time of a step", "step_ns_mean", " per step"};
    case CostMetric::TimePerStep:
      return {"allocator time per step", "allocator_ns_per_step", " per step"};
    case CostMetric::TimePerPass:
      break;
  }
  return {"allocator time per pass", "allocate_latency_ns_mean", " per pass in the allocator"};
}

namespace {

// From here on a mean says something that the median does not.
constexpr double kUnevenRatio = 1.5;

// "0.80 ms per step of 512 ms": the step's own length has a unit of its own.
std::string amount_text(const CellCost& cost, const Answer& answer, const TimeUnit& unit) {
  const std::string text =
      fmt::format("{}{}{}", cost.enough_samples ? "" : "~", time_text(cost.value_ns, unit),
                  cost_words(answer.metric).per);
  if (answer.metric == CostMetric::WallPerStep) {
    const TimeUnit lost = unit_of(cost.lost_high_ns);
    return text + fmt::format(", {} of it the setting's ({} to {} on a card)",
                              time_text(cost.added_ns, unit_of(std::max(cost.added_ns, 1.0))),
                              three_figures(cost.lost_low_ns / lost.divisor),
                              time_text(cost.lost_high_ns, lost));
  }
  // A few steps pay for all retries: the median hides them.
  if (cost.mean_step_ns > kUnevenRatio * cost.value_ns) {
    return text +
           fmt::format(", {} on average", time_text(cost.mean_step_ns, unit_of(cost.mean_step_ns)));
  }
  if (cost.step_ns <= 0) return text;
  return text + " of " + time_text(cost.step_ns, unit_of(cost.step_ns));
}

}  // namespace

std::string short_cost(const RankedCell& ranked, const Answer& answer) {
  const TimeUnit unit = time_unit(answer);
  if (!ranked.cost) return "a cost that is not known";
  std::string text = amount_text(*ranked.cost, answer, unit);
  if (ranked.difference_ns) text += " (" + difference_text(ranked, unit) + ")";
  if (const std::string dear = dear_text(*ranked.cost); !dear.empty()) {
    text += fmt::format(", {} (up to {})", dear, time_text(*ranked.cost->high_ns, unit));
  }
  return text;
}

std::string cost_text(const RankedCell& ranked, const Answer& answer) {
  const TimeUnit unit = time_unit(answer);
  std::vector<std::string> parts;
  if (ranked.cost) {
    const CellCost& cost = *ranked.cost;
    std::string text = amount_text(cost, answer, unit);
    if (cost.low_ns) {
      text += fmt::format(" ({} to {})", three_figures(*cost.low_ns / unit.divisor),
                          three_figures(*cost.high_ns / unit.divisor));
    }
    parts.push_back(text);
    if (const std::string dear = dear_text(cost); !dear.empty()) parts.push_back(dear);
  }
  if (ranked.difference_ns) parts.push_back(difference_text(ranked, unit));
  if (ranked.cell->reserved_bytes_peak) {
    parts.push_back("reserved peak " + format_bytes(*ranked.cell->reserved_bytes_peak));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string missing_range(const Answer& answer, const RankedCell* named) {
  const auto lacks = [](const RankedCell& one) { return one.difference_ns && !one.range_known; };
  const bool missing =
      named != nullptr ? lacks(*named) : std::ranges::any_of(answer.settable, lacks);
  if (!missing) return {};
  const auto has_one = [](const RankedCell& one) { return one.cost && one.cost->pass_count == 1; };
  const bool one_pass =
      (answer.baseline_cost && answer.baseline_cost->pass_count == 1) ||
      (named != nullptr ? has_one(*named) : std::ranges::any_of(answer.settable, has_one));
  return one_pass ? " One pass has no range." : " The range of the passes is not known.";
}

std::string step_bounds(const CellGroup& group, const Answer& answer) {
  const bool known = std::ranges::any_of(
      group.cells, [](const CellResult* cell) { return cell->kernel_ns_total.value_or(0) > 0; });
  const bool costs = answer.baseline_cost || !answer.settable.empty();
  if (known || !costs || answer.metric != CostMetric::TimePerStep) return {};
  return "The device's work is not known here: a step takes longer by at least the allocator's "
         "time, "
         "and at most by that and the step's own length, because the device idles after each wait "
         "until the program has queued work again.";
}

}  // namespace allocmark

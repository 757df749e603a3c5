// Sorts a group's cells into those that served every request, those that did not and those without
// numbers, and ranks the first by what a user pays.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/bytes.h"
#include "base/key_count.h"
#include "base/median.h"
#include "results/answer/answer.h"
#include "results/answer/answer_parts.h"
#include "results/cell_summary.h"
#include "results/derived.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

// Waste worth a sentence: more than this times as much reserved as requested, at their peaks.
constexpr double kWasteRatioMin = 1.5;
constexpr std::uint64_t kWasteBytesMin = kGiB / 2;

std::string baseline_allocator(const std::vector<const CellResult*>& cells) {
  std::set<std::string> releases;
  for (const CellResult* cell : cells) {
    if (is_release_of(cell->key, kBaselineAllocator)) releases.insert(cell->key.allocator);
  }
  return releases.size() == 1 ? *releases.begin() : std::string(kBaselineAllocator);
}

double total_ns(const LatencySummary& summary) {
  return summary.count == 0 ? 0 : summary.mean_ns * static_cast<double>(summary.count);
}

// A pass that costs more than this times the cheapest one of its cell is dear.
constexpr double kDearRatio = 2;

// What the passes tell of a cost. One pass tells nothing beyond itself.
void add_passes(const std::vector<double>& costs_ns, CellCost* cost) {
  if (costs_ns.size() < 2) return;
  const auto [low, high] = std::ranges::minmax(costs_ns);
  cost->low_ns = low;
  cost->high_ns = high;
  cost->mean_ns =
      std::accumulate(costs_ns.begin(), costs_ns.end(), 0.0) / static_cast<double>(costs_ns.size());
  cost->dear_pass_count = static_cast<std::uint64_t>(std::ranges::count_if(
      costs_ns, [dear_ns = kDearRatio * low](double one_ns) { return one_ns > dear_ns; }));
}

// As the passes store it. False where not every pass does.
bool add_stored(const CellResult& cell, double PassSummary::*stored, CellCost* cost) {
  std::vector<double> costs_ns;
  for (const PassSummary& pass : cell.passes) {
    if (pass.*stored <= 0) return false;
    costs_ns.push_back(pass.*stored);
  }
  add_passes(costs_ns, cost);
  return costs_ns.size() > 1;
}

// Where passes do not store it: a pass has its share of the cell's cost that it has of the
// allocator's time.
void add_by_share(const CellResult& cell, CellCost* cost) {
  std::vector<double> costs_ns;
  for (const PassSummary& pass : cell.passes) costs_ns.push_back(calls_ns_total(pass));
  if (costs_ns.empty() || std::ranges::min(costs_ns) <= 0) return;
  const double mean_ns =
      std::accumulate(costs_ns.begin(), costs_ns.end(), 0.0) / static_cast<double>(costs_ns.size());
  for (double& one_ns : costs_ns) one_ns *= cost->value_ns / mean_ns;
  add_passes(costs_ns, cost);
}

// What the calls of each pass cost on the profile's host; empty where that is not known.
std::vector<double> scaled_passes_ns(const CellResult& cell) {
  std::vector<double> passes_ns;
  for (const PassSummary& pass : cell.passes) {
    if (pass.allocator_scaled_ns <= 0) return {};
    passes_ns.push_back(pass.allocator_scaled_ns);
  }
  return passes_ns;
}

CostMetric metric_of(const std::vector<const CellResult*>& cells) {
  for (const CostMetric metric :
       {CostMetric::RequestP99, CostMetric::WallPerStep, CostMetric::TimePerStep}) {
    const bool known = std::ranges::any_of(
        cells, [&](const CellResult* cell) { return cost_of(*cell, metric).has_value(); });
    if (known) return metric;
  }
  return CostMetric::TimePerPass;
}

std::uint64_t reserved_bytes(const RankedCell& ranked) {
  return ranked.cell->reserved_bytes_peak.value_or(ranked.cell->device_bytes_peak.value_or(0));
}

bool is_cheaper(const RankedCell& left, const RankedCell& right) {
  if (left.cost.has_value() != right.cost.has_value()) return left.cost.has_value();
  return left.cost && left.cost->rank_ns() < right.cost->rank_ns();
}

// A second run of a cell lies further away than this beyond the range of its passes in 2 to 4 % of
// cells; it lies outside that range in 8 to 10 % (results/answer/ANSWER.md, "The answer").
constexpr double kApartRatio = 1.05;
// Memory within this share of the least is as good: there fewer keys to set come first.
constexpr double kEqualMemoryShare = 1.01;

bool ranges_known(const CellCost& left, const CellCost& right) {
  return left.low_ns && right.low_ns;
}

bool ranges_apart(const CellCost& left, const CellCost& right) {
  return *left.high_ns * kApartRatio < *right.low_ns || *right.high_ns * kApartRatio < *left.low_ns;
}

// Whether the ranges tell that two costs differ.
bool told_by_ranges(const CellCost& left, const CellCost& right) {
  return ranges_apart(left, right) && !(left.is_settled || right.is_settled);
}

double cost_ratio(const CellCost& left, const CellCost& right) {
  const double ratio = left.rank_ns() / right.rank_ns();
  return std::max(ratio, 1 / ratio);
}

// What is steady, by memory; of what needs about as little as the least the one with the fewest
// keys; then what is dear in some passes.
void rank_equal(std::span<RankedCell> cells) {
  const std::uint64_t least = reserved_bytes(*std::ranges::min_element(cells, {}, reserved_bytes));
  std::ranges::stable_sort(cells, {}, [&](const RankedCell& one) {
    const std::uint64_t bytes = reserved_bytes(one);
    const bool is_more =
        static_cast<double>(bytes) > kEqualMemoryShare * static_cast<double>(least);
    return std::tuple(one.cost && one.cost->dear_pass_count > 0, is_more ? bytes : 0,
                      key_count(one.cell->key.conf), bytes);
  });
}

// By cost; cells whose cost equals that of the cheapest of them, by memory.
void rank(std::vector<RankedCell>& cells) {
  std::stable_sort(cells.begin(), cells.end(), is_cheaper);
  for (auto begin = cells.begin(); begin != cells.end();) {
    const RankedCell head = *begin;
    const auto end = std::find_if(begin, cells.end(), [&](const RankedCell& one) {
      const bool equal = head.cost && one.cost && are_equal(*head.cost, *one.cost);
      return one.cell != head.cell && !equal;
    });
    rank_equal(std::span(begin, end));
    begin = end;
  }
}

RankedCell ranked_cell(const CellResult& cell, const Answer& answer) {
  RankedCell ranked{.cell = &cell, .cost = cost_of(cell, answer.metric)};
  if (ranked.cost && answer.baseline_cost) {
    ranked.difference_ns = ranked.cost->value_ns - answer.baseline_cost->value_ns;
    ranked.may_be_noise = may_be_noise(*ranked.cost, *answer.baseline_cost);
    ranked.range_known = ranges_known(*ranked.cost, *answer.baseline_cost);
  }
  return ranked;
}

double waste_ratio(const CellResult& cell) {
  const std::uint64_t reserved = cell.reserved_bytes_peak.value_or(0);
  if (cell.requested_bytes_peak == 0 || reserved < cell.requested_bytes_peak + kWasteBytesMin) {
    return 0;
  }
  const double ratio =
      static_cast<double>(reserved) / static_cast<double>(cell.requested_bytes_peak);
  return ratio <= kWasteRatioMin ? 0 : ratio;
}

AnswerVerdict verdict_of(const Answer& answer) {
  const bool anyone_served = !answer.settable.empty() || !answer.others.empty();
  const bool baseline_failed =
      answer.baseline != nullptr && outcome_of(*answer.baseline) == Outcome::Oom;
  const bool all_failed = !anyone_served && (baseline_failed || !answer.with_oom.empty()) &&
                          (answer.baseline == nullptr || baseline_failed);
  if (all_failed && answer.needed_bytes > answer.capacity_bytes) return AnswerVerdict::Impossible;
  if (answer.baseline == nullptr) return AnswerVerdict::NoBaseline;
  if (!baseline_failed) return AnswerVerdict::Served;
  return anyone_served ? AnswerVerdict::Rescued : AnswerVerdict::Unrescued;
}

// Needs the sizes of whoever has numbers; all cells of a group replay the same trace.
void add_memory(const std::vector<const CellResult*>& cells, Answer* answer) {
  for (const CellResult* cell : cells) {
    if (answer->needed_bytes < cell->requested_bytes_peak) {
      answer->needed_bytes = cell->requested_bytes_peak;
    }
    answer->capacity_bytes = std::max(answer->capacity_bytes, cell->capacity_bytes);
    const bool served = outcome_of(*cell) == Outcome::Ok && !line_to_paste(cell->key).empty();
    if (served && cell->reserved_bytes_peak &&
        (answer->leanest == nullptr ||
         *cell->reserved_bytes_peak < *answer->leanest->reserved_bytes_peak)) {
      answer->leanest = cell;
    }
    if (waste_ratio(*cell) > (answer->wasteful ? waste_ratio(*answer->wasteful) : 0)) {
      answer->wasteful = cell;
    }
  }
}

}  // namespace

Outcome outcome_of(const CellResult& cell) {
  if (!is_measured(cell) || cell.allocate_count == 0) return Outcome::None;
  // Timed passes are of an idle device, which is not what a pool is judged by.
  const bool trials_count = !cell.assumed_kernel_ns.has_value();
  const bool failed = cell.status == CellStatus::OomStopped || cell.oom_count > 0 ||
                      (trials_count && cell.trial_oom_count > 0);
  return failed ? Outcome::Oom : Outcome::Ok;
}

std::optional<CellCost> cost_of(const CellResult& cell, CostMetric metric) {
  CellCost cost{.pass_count = cell.passes.size()};
  if (metric == CostMetric::RequestP99) {
    if (!cell.requests || cell.requests->latency.count == 0) return std::nullopt;
    cost.value_ns = cell.requests->latency.p99_ns;
    cost.enough_samples = has_enough_samples(kP99, cell.requests->latency.count);
    (void)add_stored(cell, &PassSummary::request_latency_ns_p99, &cost);
  } else if (metric == CostMetric::WallPerStep) {
    if (!knows_wall_time(cell)) return std::nullopt;
    cost.value_ns = cell.step_ns_mean;
    cost.added_ns = std::max(0.0, cell.step_ns_mean - cell.step_ideal_ns_mean);
    const double slack_ns = kLostOnCard.step_share * cell.step_ideal_ns_mean;
    cost.lost_low_ns = std::max(0.0, kLostOnCard.low_factor * cost.added_ns - slack_ns);
    cost.lost_high_ns = kLostOnCard.high_factor * cost.added_ns + slack_ns;
    cost.equal_ratio = kEqualWallRatio;
    (void)add_stored(cell, &PassSummary::step_ns_mean, &cost);
  } else if (metric == CostMetric::TimePerStep) {
    const ShownStep step = shown_step(cell);
    cost.value_ns = step.time_ns;
    cost.is_settled = cell.allocator_undisturbed_ns_per_step > 0;
    // Without kernels the clock has seen nothing of the program's own work.
    if (cell.kernel_ns_total.value_or(0) > 0) {
      cost.step_ns = cell.step_ns_p50;
    } else if (cell.retry_count.value_or(0) > 0 && cell.key.device.starts_with("sim:")) {
      cost.mean_step_ns = cell.step_ns_mean;
    }
    if (!add_stored(cell, step.of_pass, &cost)) add_by_share(cell, &cost);
  } else if (const std::vector<double> passes_ns = scaled_passes_ns(cell); !passes_ns.empty()) {
    cost.value_ns = median(passes_ns);
    cost.is_settled = true;
    add_passes(passes_ns, &cost);
  } else if (cell.pass_count > 0) {
    cost.value_ns = (total_ns(cell.allocate.total) + total_ns(cell.deallocate.total)) /
                    static_cast<double>(cell.pass_count);
    add_by_share(cell, &cost);
  }
  if (!std::isfinite(cost.value_ns) || cost.value_ns <= 0) return std::nullopt;
  return cost;
}

double CellCost::rank_ns() const { return dear_pass_count > 0 ? mean_ns : value_ns; }

bool are_equal(const CellCost& left, const CellCost& right) {
  if (left.equal_ratio == kEqualWallRatio) return cost_ratio(left, right) <= kEqualWallRatio;
  return ranges_known(left, right) && !told_by_ranges(left, right) &&
         cost_ratio(left, right) <= left.equal_ratio;
}

bool may_be_noise(const CellCost& left, const CellCost& right) {
  const double ratio = cost_ratio(left, right);
  if (!ranges_known(left, right)) return ratio <= left.equal_ratio;
  if (left.equal_ratio == kEqualWallRatio) return ratio <= kEqualWallRatio;
  if (!ranges_apart(left, right)) return ratio <= kDearRatio;
  return !told_by_ranges(left, right) && ratio <= left.equal_ratio;
}

const RankedCell* Answer::rescuer() const {
  return verdict == AnswerVerdict::Rescued && !settable.empty() ? &settable.front() : nullptr;
}

Answer find_answer(const CellGroup& group) {
  Answer answer;
  std::vector<const CellResult*> measured;
  for (const CellResult* cell : group.cells) {
    if (cell->key.allocator == kNullAllocator) continue;
    if (outcome_of(*cell) == Outcome::None) {
      answer.not_measured.push_back(cell);
      continue;
    }
    measured.push_back(cell);
  }
  answer.baseline_allocator = baseline_allocator(group.cells);
  for (const CellResult* cell : measured) {
    const bool unset = cell->key.conf.empty();
    if (unset && cell->key.allocator == answer.baseline_allocator) answer.baseline = cell;
  }
  answer.metric = metric_of(measured);
  if (answer.baseline) answer.baseline_cost = cost_of(*answer.baseline, answer.metric);
  for (const CellResult* cell : measured) {
    if (cell == answer.baseline) continue;
    if (outcome_of(*cell) == Outcome::Oom) {
      answer.with_oom.push_back(cell);
      continue;
    }
    auto& list = line_to_paste(cell->key).empty() ? answer.others : answer.settable;
    list.push_back(ranked_cell(*cell, answer));
  }
  rank(answer.settable);
  rank(answer.others);
  add_memory(measured, &answer);
  answer.verdict = verdict_of(answer);
  return answer;
}

bool needs_answer(const CellGroup& group) {
  return std::ranges::any_of(group.cells,
                             [](const CellResult* cell) {
                               return cell->key.allocator != kNullAllocator &&
                                      (outcome_of(*cell) != Outcome::Ok || grows(*cell));
                             }) ||
         find_answer(group).wasteful != nullptr;
}

}  // namespace allocmark

// Memory first where the job fits, cost first where it does not.
#include "harness/tools/advise/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/key_count.h"
#include "harness/core/search/advice.h"

namespace allocmark {
namespace {

// A difference of this much per step is no cost: 1 % of a step of 10 ms.
constexpr double kFreeStepNs = 100e3;
// Memory that is worth a setting.
constexpr double kLessShare = 0.9;
constexpr std::uint64_t kLessBytes = 256 * kMiB;
// Time that is worth a setting: both.
constexpr double kCheaperNs = 1e6;
constexpr double kCheaperShare = 0.8;
// Costs within this of the cheapest are equal; then memory decides.
constexpr double kEqualPriceRatio = 1.15;
constexpr double kEqualNeedsRatio = 1.01;

const SettingFacts* facts_of(const VerdictInput& input, std::string_view conf) {
  const auto found = std::ranges::find(input.settings, conf, &SettingFacts::conf);
  return found == input.settings.end() ? nullptr : &*found;
}

std::string time_words(double value_ns) {
  const double absolute = std::abs(value_ns);
  if (absolute >= 1e6) return fmt::format("{:.2f} ms", absolute / 1e6);
  return fmt::format("{:.{}f} us", absolute / 1e3, absolute < 10e3 ? 2 : 0);
}

// "at +0.20 ms per step", "at no cost".
std::string cost_words(const FinalistCost& cost, std::string_view per) {
  if (!cost.difference_ns) return fmt::format("at {} {}", time_words(cost.value_ns), per);
  const bool is_free = *cost.difference_ns <= kFreeStepNs || cost.may_be_noise;
  return fmt::format("{} ({}{} {})", is_free ? "at no cost" : "at a cost",
                     *cost.difference_ns < 0 ? "-" : "+", time_words(*cost.difference_ns), per);
}

bool serves_safely(const VerdictInput& input, const FinalistCost& cost) {
  const SettingFacts* facts = facts_of(input, cost.conf);
  return cost.served && facts != nullptr && serves(*facts, input.capacity_bytes);
}

// Of settings that are as good otherwise: least memory, fewest keys, the order of the grid.
template <typename Memory>
const FinalistCost* leanest(const VerdictInput& input,
                            const std::vector<const FinalistCost*>& candidates, Memory memory) {
  if (candidates.empty()) return nullptr;
  const auto bytes = [&](const FinalistCost* cost) { return memory(*facts_of(input, cost->conf)); };
  const std::uint64_t least = bytes(std::ranges::min(candidates, {}, bytes));
  return std::ranges::min(candidates, {}, [&](const FinalistCost* cost) {
    const bool is_more =
        static_cast<double>(bytes(cost)) > kEqualNeedsRatio * static_cast<double>(least);
    return std::tuple(is_more ? bytes(cost) : 0, key_count(cost->conf),
                      facts_of(input, cost->conf) - input.settings.data());
  });
}

std::uint64_t needs(const SettingFacts& facts) {
  return facts.least_bytes.value_or(~std::uint64_t{0});
}

std::string shortfall(const SettingFacts& facts, std::uint64_t capacity_bytes) {
  if (facts.oom_count > 0) {
    return fmt::format("fails {} request{}", facts.oom_count, facts.oom_count == 1 ? "" : "s");
  }
  return fmt::format("serves {} by luck only: it fails with some larger amounts, up to {}",
                     format_bytes(capacity_bytes),
                     facts.least_bytes ? format_bytes(*facts.least_bytes) : "all of the card");
}

SettingVerdict of_fitting_job(const VerdictInput& input, const SettingFacts& unset) {
  std::vector<const FinalistCost*> leaner;
  const FinalistCost* cheaper = nullptr;
  for (const FinalistCost& cost : input.costs) {
    if (cost.conf.empty() || !serves_safely(input, cost)) continue;
    const std::uint64_t peak_bytes = facts_of(input, cost.conf)->peak_bytes;
    const bool is_less =
        static_cast<double>(peak_bytes) <= kLessShare * static_cast<double>(unset.peak_bytes) &&
        unset.peak_bytes >= peak_bytes + kLessBytes;
    const double difference_ns = cost.difference_ns.value_or(0);
    if (!input.takes_beforehand && is_less && (difference_ns <= kFreeStepNs || cost.may_be_noise))
      leaner.push_back(&cost);
    const bool is_cheaper = difference_ns <= -kCheaperNs && !cost.may_be_noise &&
                            cost.value_ns <= kCheaperShare * (cost.value_ns - difference_ns);
    if (is_cheaper && cheaper == nullptr) cheaper = &cost;
  }
  const auto peak = [](const SettingFacts& facts) { return facts.peak_bytes; };
  if (const FinalistCost* best = leanest(input, leaner, peak)) {
    return {.kind = VerdictKind::Paste,
            .conf = best->conf,
            .why = fmt::format("unset serves every request, but reserves {}; {} reserves {} {}",
                               format_bytes(unset.peak_bytes), best->conf,
                               format_bytes(facts_of(input, best->conf)->peak_bytes),
                               cost_words(*best, input.per))};
  }
  if (cheaper != nullptr) {
    return {.kind = VerdictKind::Paste,
            .conf = cheaper->conf,
            .why = fmt::format("unset serves every request; {} saves {} {}", cheaper->conf,
                               time_words(*cheaper->difference_ns), input.per)};
  }
  if (input.takes_beforehand) {
    return {.kind = VerdictKind::LeaveUnset,
            .why = fmt::format("unset serves every request, and no setting tried saves 1 ms {}",
                               input.per)};
  }
  return {.kind = VerdictKind::LeaveUnset,
          .why = fmt::format("unset serves every request and reserves {}; no setting tried saves "
                             "a tenth of that at no cost, or 1 ms {}",
                             format_bytes(unset.peak_bytes), input.per)};
}

SettingVerdict without_rescue(const VerdictInput& input, const std::string& unset_words) {
  const auto lucky = std::ranges::find_if(input.settings, [&](const SettingFacts& facts) {
    return facts.oom_count == 0 && !serves(facts, input.capacity_bytes);
  });
  std::string why = unset_words + "no setting tried serves every request";
  if (lucky != input.settings.end()) {
    why = fmt::format("{}{} {}", unset_words, setting_text(lucky->conf),
                      shortfall(*lucky, input.capacity_bytes));
  }
  const auto least = std::ranges::min_element(input.settings, {}, needs);
  if (least != input.settings.end() && least->least_bytes) {
    why += fmt::format("; {} needs least, {}", setting_text(least->conf),
                       format_bytes(*least->least_bytes));
  }
  return {.kind = VerdictKind::NoSetting, .why = std::move(why)};
}

// It was not among the settings that were asked about.
bool unset_serves_beside(const VerdictInput& input, const SettingFacts* unset) {
  const auto measured = std::ranges::find(input.costs, "", &FinalistCost::conf);
  return unset == nullptr && measured != input.costs.end() && measured->served;
}

SettingVerdict of_failing_job(const VerdictInput& input, const SettingFacts* unset) {
  const std::string unset_words =
      unset == nullptr ? "" : "unset " + shortfall(*unset, input.capacity_bytes) + "; ";
  std::vector<const FinalistCost*> rescuers;
  for (const FinalistCost& cost : input.costs) {
    if (cost.conf.empty() || !serves_safely(input, cost)) continue;
    if (rescuers.empty() || cost.value_ns <= kEqualPriceRatio * rescuers.front()->value_ns) {
      rescuers.push_back(&cost);
    }
  }
  const FinalistCost* best = leanest(input, rescuers, needs);
  if (best == nullptr && unset_serves_beside(input, unset)) {
    return {.kind = VerdictKind::LeaveUnset,
            .why = without_rescue(input, "").why + "; unset, measured beside them, does"};
  }
  if (best == nullptr) return without_rescue(input, unset_words);
  const SettingFacts& facts = *facts_of(input, best->conf);
  return {.kind = VerdictKind::Paste,
          .conf = best->conf,
          .why = fmt::format("{}{} serves every request at {} {}, and needs {} of {}", unset_words,
                             best->conf, time_words(best->value_ns), input.per,
                             format_bytes(needs(facts)), format_bytes(input.capacity_bytes))};
}

}  // namespace

SettingVerdict decide(const VerdictInput& input) {
  if (input.needed_bytes > input.capacity_bytes) {
    return {.kind = VerdictKind::NoSetting,
            .why = fmt::format("needs {} live, {} are there: {} must go",
                               format_bytes(input.needed_bytes), format_bytes(input.capacity_bytes),
                               format_bytes(input.needed_bytes - input.capacity_bytes))};
  }
  const SettingFacts* unset = facts_of(input, "");
  const auto measured = std::ranges::find(input.costs, "", &FinalistCost::conf);
  const bool fits = unset != nullptr && serves(*unset, input.capacity_bytes) &&
                    (measured == input.costs.end() || measured->served);
  return fits ? of_fitting_job(input, *unset) : of_failing_job(input, unset);
}

std::vector<FinalistCost> searched_costs(std::span<const SettingFacts> settings,
                                         std::uint64_t capacity_bytes) {
  std::vector<FinalistCost> costs;
  const auto unset = std::ranges::find(settings, "", &SettingFacts::conf);
  for (const std::size_t at : ranked_by_cost(settings, capacity_bytes)) {
    FinalistCost cost{.conf = settings[at].conf, .served = true, .value_ns = cost_of(settings[at])};
    if (unset != settings.end()) cost.difference_ns = cost.value_ns - cost_of(*unset);
    costs.push_back(std::move(cost));
  }
  return costs;
}

}  // namespace allocmark

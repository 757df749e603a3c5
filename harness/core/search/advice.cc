// Choices and words.
#include "harness/core/search/advice.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/key_count.h"
#include "harness/core/replay/capacity.h"

namespace allocmark {
namespace {

constexpr double kEqualShare = 1.05;
constexpr double kEqualNs = 1000;
// A difference of this much per step is no cost.
constexpr double kNoCostNs = 100e3;
// Memory within this share is equal.
constexpr double kEqualPeakRatio = 1.01;
// The allocator's own code in a call, whatever the setting: caching's median on an H200's host.
// Without it 5 % of little driver time would part settings that take as long.
constexpr double kHostNsPerCall = 100;

std::uint64_t least_or_all(const SettingFacts& facts) {
  return facts.least_bytes.value_or(std::numeric_limits<std::uint64_t>::max());
}

const SettingFacts* find_setting(std::span<const SettingFacts> settings, const std::string& conf) {
  const auto found = std::ranges::find(settings, conf, &SettingFacts::conf);
  return found == settings.end() ? nullptr : &*found;
}

const SettingFacts* least_memory(std::span<const SettingFacts> settings) {
  const auto found = std::ranges::min_element(settings, {}, [](const SettingFacts& one) {
    return std::tuple(least_or_all(one), key_count(one.conf));
  });
  return found == settings.end() || !found->least_bytes ? nullptr : &*found;
}

// Of those that cost no more than unset, beyond what a step has: the one that reserves least; of
// about as little the cheapest. Null where unset does not serve.
const SettingFacts* leanest_at_no_cost(std::span<const SettingFacts> settings,
                                       const std::vector<std::size_t>& ranked) {
  const SettingFacts* unset = find_setting(settings, "");
  if (unset == nullptr || !serves(*unset)) return nullptr;
  const SettingFacts* leanest = nullptr;
  for (const std::size_t at : ranked) {
    const SettingFacts& one = settings[at];
    if (cost_of(one) > cost_of(*unset) + kNoCostNs) continue;
    const bool is_leaner =
        leanest == nullptr || static_cast<double>(one.peak_bytes) * kEqualPeakRatio <
                                  static_cast<double>(leanest->peak_bytes);
    if (is_leaner) leanest = &one;
  }
  return leanest;
}

}  // namespace

bool serves(const SettingFacts& facts, std::uint64_t capacity_bytes) {
  if (facts.oom_count > 0) return false;
  if (capacity_bytes == kAnyCapacity) return true;
  return facts.least_bytes && *facts.least_bytes < capacity_bytes + kDevicePageBytes;
}

double cost_of(const SettingFacts& facts) {
  return facts.driver_ns_per_step + kHostNsPerCall * facts.calls_per_step;
}

std::string setting_text(const std::string& conf) { return conf.empty() ? "unset" : conf; }

std::vector<std::size_t> ranked_by_cost(std::span<const SettingFacts> settings,
                                        std::uint64_t capacity_bytes) {
  std::vector<std::size_t> left;
  for (std::size_t at = 0; at < settings.size(); ++at) {
    if (serves(settings[at], capacity_bytes)) left.push_back(at);
  }
  std::vector<std::size_t> ranked;
  while (!left.empty()) {
    const auto cost = [&](std::size_t at) { return cost_of(settings[at]); };
    const double best = cost(*std::ranges::min_element(left, {}, cost));
    const auto is_worse = [&](std::size_t at) {
      return cost(at) > best * kEqualShare && cost(at) > best + kEqualNs;
    };
    const auto next = std::ranges::min_element(left, {}, [&](std::size_t at) {
      const SettingFacts& one = settings[at];
      return std::tuple(is_worse(at), key_count(one.conf), least_or_all(one), at);
    });
    ranked.push_back(*next);
    left.erase(next);
  }
  return ranked;
}

std::vector<std::string> finalists(std::span<const SettingFacts> settings,
                                   const FinalistChoice& choice) {
  std::vector<std::string> confs{""};
  const auto add = [&](const std::string& conf) {
    const bool is_new = std::ranges::find(confs, conf) == confs.end();
    if (is_new && confs.size() <= choice.count_max) confs.push_back(conf);
  };
  const std::vector<std::size_t> ranked = ranked_by_cost(settings, choice.capacity_bytes);
  if (!ranked.empty()) add(settings[ranked.front()].conf);
  if (const SettingFacts* leanest = leanest_at_no_cost(settings, ranked)) add(leanest->conf);
  const SettingFacts* least = least_memory(settings);
  if (least != nullptr && serves(*least, choice.capacity_bytes)) add(least->conf);
  for (const std::size_t at : ranked) add(settings[at].conf);
  if (ranked.empty() && !settings.empty()) {
    add(std::ranges::min_element(settings, {}, &SettingFacts::oom_count)->conf);
  }
  return confs;
}

std::vector<bool> pareto_front(std::span<const SettingFacts> settings) {
  std::vector<bool> front;
  for (const SettingFacts& one : settings) {
    const bool beaten = std::ranges::any_of(settings, [&](const SettingFacts& other) {
      const bool no_worse =
          least_or_all(other) <= least_or_all(one) && cost_of(other) <= cost_of(one);
      const bool better = least_or_all(other) < least_or_all(one) || cost_of(other) < cost_of(one);
      return other.oom_count == 0 && no_worse && better;
    });
    front.push_back(one.oom_count == 0 && one.least_bytes.has_value() && !beaten);
  }
  return front;
}

std::string least_text(const SettingFacts& facts, const SearchResult& result) {
  if (!facts.least_bytes) return "more than " + format_bytes(result.usable_bytes);
  return format_bytes(*facts.least_bytes) + (facts.unsettled_bytes > 0 ? "?" : "");
}

std::string needs_sentence(const SearchResult& result) {
  const SettingFacts* least = least_memory(result.settings);
  const std::string live = format_bytes(result.needed_bytes) + " live at its peak";
  if (least == nullptr) {
    const bool is_one = result.settings.size() == 1;
    return fmt::format("needs more than {} {} ({})", format_bytes(result.usable_bytes),
                       is_one && !result.settings.front().conf.empty()
                           ? "with " + result.settings.front().conf
                       : is_one ? "unset"
                                : "with every setting",
                       live);
  }
  const SettingFacts* unset = find_setting(result.settings, "");
  std::string text = fmt::format("needs at least {} {}", least_text(*least, result),
                                 least->conf.empty() ? "unset" : "with " + least->conf);
  if (unset != nullptr && unset != least) text += ", " + least_text(*unset, result) + " unset";
  return text + " (" + live + ")";
}

}  // namespace allocmark

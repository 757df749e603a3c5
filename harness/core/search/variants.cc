#include "harness/core/search/variants.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "workloads/worst_case.h"

namespace allocmark {
namespace {

const SettingFacts* facts_of(const SearchResult& search, const std::string& conf) {
  const auto found = std::ranges::find(search.settings, conf, &SettingFacts::conf);
  return found == search.settings.end() ? nullptr : &*found;
}

void take_worse(const SettingFacts& other, SettingFacts* facts) {
  facts->oom_count = std::max(facts->oom_count, other.oom_count);
  facts->peak_bytes = std::max(facts->peak_bytes, other.peak_bytes);
  facts->driver_ns_per_step = std::max(facts->driver_ns_per_step, other.driver_ns_per_step);
  facts->calls_per_step = std::max(facts->calls_per_step, other.calls_per_step);
  facts->driver_ns = std::max(facts->driver_ns, other.driver_ns);
  facts->pass_count += other.pass_count;
  if (!other.failure.empty()) facts->failure = other.failure;
  facts->unsettled_bytes = std::max(facts->unsettled_bytes, other.unsettled_bytes);
  const bool both = facts->least_bytes && other.least_bytes;
  facts->least_bytes =
      both ? std::optional(std::max(*facts->least_bytes, *other.least_bytes)) : std::nullopt;
  if (other.serves_below_bytes) facts->serves_below_bytes = other.serves_below_bytes;
}

}  // namespace

std::vector<JobVariant> other_variants(const std::string& workload, std::uint64_t seed,
                                       std::uint32_t seed_count) {
  std::vector<JobVariant> variants;
  for (std::uint32_t i = 1; i < seed_count; ++i) {
    variants.push_back(
        {.name = fmt::format("seed {}", seed + i), .workload = workload, .seed = seed + i});
  }
  const std::vector<std::string> worst = worst_cases(workload);
  for (std::size_t i = 0; i < worst.size(); ++i) {
    variants.push_back({.name = i == 0 ? "longest lengths" : "a quarter at the longest length",
                        .workload = worst[i],
                        .seed = seed,
                        .is_worst = true});
  }
  return variants;
}

std::vector<VariantSearch> distinct_searches(const SearchResult& own,
                                             std::vector<VariantSearch> others) {
  std::set<std::uint64_t> hashes{own.trace_hash};
  std::erase_if(others, [&](const VariantSearch& one) {
    return !hashes.insert(one.search.trace_hash).second;
  });
  return others;
}

std::vector<SettingFacts> worst_facts(const SearchResult& own,
                                      std::span<const VariantSearch> others) {
  std::vector<SettingFacts> all;
  for (const SettingFacts& setting : own.settings) {
    SettingFacts facts = setting;
    const bool known = std::ranges::all_of(others, [&](const VariantSearch& other) {
      const SettingFacts* found = facts_of(other.search, facts.conf);
      if (found != nullptr) take_worse(*found, &facts);
      return found != nullptr;
    });
    if (known) all.push_back(facts);
  }
  return all;
}

LeastSpread least_spread(const std::string& conf, const SearchResult& own, std::uint64_t seed,
                         std::span<const VariantSearch> others) {
  LeastSpread spread;
  bool all_known = true;
  const auto add = [&](const std::string& name, const SearchResult& search) {
    const SettingFacts* facts = facts_of(search, conf);
    if (facts == nullptr) return;
    ++spread.variant_count;
    spread.served_count += facts->oom_count == 0 ? 1 : 0;
    all_known = all_known && facts->least_bytes.has_value();
    if (!facts->least_bytes) {
      spread.highest = name;
      return;
    }
    spread.low_bytes =
        std::min(spread.low_bytes.value_or(*facts->least_bytes), *facts->least_bytes);
    if (spread.high_bytes && *spread.high_bytes >= *facts->least_bytes) return;
    spread.high_bytes = facts->least_bytes;
    if (all_known) spread.highest = name;
  };
  add(fmt::format("seed {}", seed), own);
  for (const VariantSearch& other : others) add(other.variant.name, other.search);
  if (!all_known) spread.high_bytes.reset();
  return spread;
}

}  // namespace allocmark

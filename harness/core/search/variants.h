// One job drawn several times: other seeds, and for programs that draw lengths the longest ones. A
// workload flows in; its variants flow out, and what their searches say together: a setting serves
// where it serves all of them, and needs what the largest needs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/core/search/search.h"

namespace allocmark {

struct JobVariant {
  std::string name = {};      // "seed 2", "longest lengths"
  std::string workload = {};  // its text
  std::uint64_t seed = 1;
  bool is_worst = false;  // the longest lengths
};

// The variants beside the job itself: the next `seed_count - 1` seeds, then the worst cases.
[[nodiscard]] std::vector<JobVariant> other_variants(const std::string& workload,
                                                     std::uint64_t seed, std::uint32_t seed_count);

struct VariantSearch {
  JobVariant variant;
  SearchResult search;
};

// Those of traces that differ from the job's own and from each other's, in their order.
[[nodiscard]] std::vector<VariantSearch> distinct_searches(const SearchResult& own,
                                                           std::vector<VariantSearch> others);

// Facts of the settings that all searches have: of each the worst, and its least amount is the
// largest.
[[nodiscard]] std::vector<SettingFacts> worst_facts(const SearchResult& own,
                                                    std::span<const VariantSearch> others);

struct LeastSpread {
  std::optional<std::uint64_t> low_bytes = std::nullopt;
  std::optional<std::uint64_t> high_bytes = std::nullopt;  // nothing: one variant is not served
  std::string highest;                                     // the variant that needs most
  std::uint32_t served_count = 0, variant_count = 0;       // at the capacity; of all variants
};
// Of one setting; the job itself is called "seed N".
[[nodiscard]] LeastSpread least_spread(const std::string& conf, const SearchResult& own,
                                       std::uint64_t seed, std::span<const VariantSearch> others);

}  // namespace allocmark

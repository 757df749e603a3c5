// What a search says: which settings serve the job, which are worth measuring, and the least memory
// of each in words. Facts of settings flow in; choices and sentences flow out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "harness/core/search/search.h"

namespace allocmark {

// "unset" or the config string.
[[nodiscard]] std::string setting_text(const std::string& conf);

// Beyond what any device has: a capacity that rules nothing out.
inline constexpr std::uint64_t kAnyCapacity = ~std::uint64_t{0};

// Whether it serves every request with the capacity and with every larger amount that was tried.
// Where only the first holds, it serves by luck.
[[nodiscard]] bool serves(const SettingFacts& facts, std::uint64_t capacity_bytes = kAnyCapacity);

// What a step costs, in modelled time; a trace without marks is one step.
[[nodiscard]] double cost_of(const SettingFacts& facts);

// Settings that serve, the cheapest in modelled time first. Costs within 5 % or 1 us per step of
// the cheapest left count as equal: then the fewest keys, then the least memory.
[[nodiscard]] std::vector<std::size_t> ranked_by_cost(std::span<const SettingFacts> settings,
                                                      std::uint64_t capacity_bytes = kAnyCapacity);

// What is measured: unset, the cheapest that serves, the one that reserves least at no more cost
// than unset, the one that needs least, then the next cheapest; at most `count_max` beside unset.
// Where none serves, unset and the one with the fewest failures.
struct FinalistChoice {
  std::uint64_t capacity_bytes = kAnyCapacity;
  std::size_t count_max = 3;
};
[[nodiscard]] std::vector<std::string> finalists(std::span<const SettingFacts> settings,
                                                 const FinalistChoice& choice);

// No other setting needs less memory and costs less.
[[nodiscard]] std::vector<bool> pareto_front(std::span<const SettingFacts> settings);

// "needs at least 20.5 GiB with expandable_segments:True, 22.4 GiB unset (20.2 GiB live at its
// peak)".
[[nodiscard]] std::string needs_sentence(const SearchResult& result);

// "20.5 GiB", with "?" where capacities above it were not all settled, "more than 139 GiB" where
// the whole device does not serve.
[[nodiscard]] std::string least_text(const SettingFacts& facts, const SearchResult& result);

}  // namespace allocmark

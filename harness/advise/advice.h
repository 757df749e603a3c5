// What a search says: which settings serve the job, which are worth measuring, and the least memory
// of each in words. Facts of settings flow in; choices and sentences flow out.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "harness/advise/search.h"

namespace allocmark {

// "unset" or the config string.
[[nodiscard]] std::string setting_text(const std::string& conf);

// Settings that serve every request at the capacity, the cheapest in modelled driver time first.
// Costs within 5 % or 1 us per step of the cheapest left count as equal: then the fewest keys, then
// the least memory.
[[nodiscard]] std::vector<std::size_t> ranked_by_cost(std::span<const SettingFacts> settings);

// What is measured: unset, the cheapest that serve and the one that needs least memory; at most
// `count_max` beside unset. Where none serves, unset and the one with the fewest failures.
[[nodiscard]] std::vector<std::string> finalists(std::span<const SettingFacts> settings,
                                                 std::size_t count_max = 3);

// No other setting needs less memory and costs less.
[[nodiscard]] std::vector<bool> pareto_front(std::span<const SettingFacts> settings);

// "needs at least 20.5 GiB with expandable_segments:True, 22.4 GiB unset (20.2 GiB live at its
// peak)".
[[nodiscard]] std::string needs_sentence(const SearchResult& result);

// "20.5 GiB", with "?" where capacities above it were not all settled, "more than 139 GiB" where
// the whole device does not serve.
[[nodiscard]] std::string least_text(const SettingFacts& facts, const SearchResult& result);

}  // namespace allocmark

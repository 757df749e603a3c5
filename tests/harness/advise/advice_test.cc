// Which settings are advised, from made-up facts.
#include "harness/core/search/advice.h"

#include <string>
#include <vector>

#include "base/bytes.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

SettingFacts setting(const std::string& conf, std::uint64_t oom_count, double step_ms,
                     std::uint64_t least_mib) {
  SettingFacts facts;
  facts.conf = conf;
  facts.oom_count = oom_count;
  facts.driver_ns_per_step = 1e6 * step_ms;
  if (least_mib > 0) facts.least_bytes = least_mib * kMiB;
  return facts;
}

const std::vector<SettingFacts> kSettings{
    setting("", 3, 0.1, 2200), setting("a:1,b:2", 0, 1.00, 2000), setting("a:1", 0, 1.04, 2050),
    setting("c:1", 0, 9.0, 1900), setting("d:1", 0, 20.0, 2100)};

TEST_CASE("the cheapest comes first, and of equals the one with fewest keys") {
  CHECK(ranked_by_cost(kSettings) == std::vector<std::size_t>{2, 1, 3, 4});
}

TEST_CASE("unset, the cheapest and the one of least memory are measured") {
  CHECK(finalists(kSettings, {}) == std::vector<std::string>{"", "a:1", "c:1", "a:1,b:2"});
  CHECK(finalists(kSettings, {.count_max = 1}) == std::vector<std::string>{"", "a:1"});
}

TEST_CASE("what reserves least at no cost is measured where unset serves") {
  std::vector<SettingFacts> settings{setting("", 0, 0.1, 2200), setting("a:1", 0, 0.1, 2150),
                                     setting("b:1", 0, 0.15, 2180), setting("c:1", 0, 9, 1900)};
  settings[0].peak_bytes = settings[1].peak_bytes = 4000 * kMiB;
  settings[2].peak_bytes = 2300 * kMiB;
  settings[3].peak_bytes = 2200 * kMiB;
  CHECK(finalists(settings, {.count_max = 2}) == std::vector<std::string>{"", "b:1", "c:1"});
}

TEST_CASE("a setting that serves by luck is no finalist") {
  const std::vector<SettingFacts> settings{setting("", 3, 1, 2200), setting("a:1", 0, 1, 2100),
                                           setting("b:1", 0, 2, 1990)};
  CHECK(serves(settings[1]));
  CHECK_FALSE(serves(settings[1], 2000 * kMiB));
  CHECK(serves(settings[2], 2000 * kMiB));
  CHECK(finalists(settings, {.capacity_bytes = 2000 * kMiB}) ==
        std::vector<std::string>{"", "b:1"});
  // Amounts are looked for in pages of 2 MiB.
  CHECK(serves(settings[2], 1990 * kMiB - 1));
}

TEST_CASE("where nothing serves, the setting that fails least is measured beside unset") {
  const std::vector<SettingFacts> settings{setting("", 9, 1, 0), setting("a:1", 5, 1, 0),
                                           setting("b:1", 2, 1, 0)};
  CHECK(finalists(settings, {}) == std::vector<std::string>{"", "b:1"});
}

TEST_CASE("the allocator's own time counts before settings are told apart") {
  std::vector<SettingFacts> settings{setting("", 0, 0.90, 0), setting("a:1", 0, 0.81, 0)};
  CHECK(ranked_by_cost(settings) == std::vector<std::size_t>{1, 0});
  for (SettingFacts& one : settings) one.calls_per_step = 30'000;  // 3 ms of its own
  CHECK(ranked_by_cost(settings) == std::vector<std::size_t>{0, 1});
}

TEST_CASE("the front holds what nothing else beats in memory and cost") {
  CHECK(pareto_front(kSettings) == std::vector<bool>{false, true, false, true, false});
}

TEST_CASE("the sentence says least memory, unset's and the live peak") {
  SearchResult result;
  result.needed_bytes = 1800 * kMiB;
  result.usable_bytes = 24 * kGiB;
  result.settings = kSettings;
  CHECK(needs_sentence(result) ==
        "needs at least 1.86 GiB with c:1, 2.15 GiB unset (1.76 GiB live at its peak)");
  for (SettingFacts& one : result.settings) one.least_bytes.reset();
  CHECK(needs_sentence(result) ==
        "needs more than 24.0 GiB with every setting (1.76 GiB live at its peak)");
  // One that was asked about alone is not every one.
  result.settings = {result.settings.back()};
  result.settings.front().conf = "a:1";
  CHECK(needs_sentence(result) == "needs more than 24.0 GiB with a:1 (1.76 GiB live at its peak)");
}

}  // namespace
}  // namespace allocmark

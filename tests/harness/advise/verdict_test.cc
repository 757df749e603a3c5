// The one verdict, from made-up facts: memory first where the job fits, cost first where it does
// not, and nothing that the facts do not hold.
#include "harness/tools/advise/verdict.h"

#include <string>
#include <vector>

#include "base/bytes.h"
#include "harness/core/search/variants.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

SettingFacts made_setting(const std::string& conf, std::uint64_t oom_count, std::uint64_t peak_mib,
                          std::uint64_t least_mib) {
  SettingFacts facts;
  facts.conf = conf;
  facts.oom_count = oom_count;
  facts.peak_bytes = peak_mib * kMiB;
  facts.least_bytes = least_mib * kMiB;
  return facts;
}

FinalistCost cost(const std::string& conf, double value_ms, double unset_ms) {
  return {.conf = conf,
          .served = true,
          .value_ns = 1e6 * value_ms,
          .difference_ns = 1e6 * (value_ms - unset_ms)};
}

SettingVerdict decide_on(const std::vector<SettingFacts>& settings,
                         const std::vector<FinalistCost>& costs) {
  return decide({.settings = settings,
                 .costs = costs,
                 .needed_bytes = 9000 * kMiB,
                 .capacity_bytes = 10000 * kMiB});
}

TEST_CASE("a job that fits is told what reserves a tenth less at no cost") {
  const std::vector<SettingFacts> settings{
      made_setting("", 0, 9900, 9100), made_setting("a:1", 0, 8000, 8000),
      made_setting("b:1", 0, 7990, 7990), made_setting("c:1", 0, 6000, 6000)};
  const SettingVerdict verdict = decide_on(
      settings, {cost("", 1, 1), cost("b:1", 1.02, 1), cost("a:1", 1.05, 1), cost("c:1", 5, 1)});
  CHECK(verdict.kind == VerdictKind::Paste);
  // Within 1 % the grid's order decides; c:1 costs 4 ms a step.
  CHECK(verdict.conf == "a:1");
  CHECK(verdict.why ==
        "unset serves every request, but reserves 9.67 GiB; a:1 reserves 7.81 GiB at no cost "
        "(+50 us per step)");
}

TEST_CASE("unset that serves beside settings that do not is the answer") {
  const std::vector<SettingFacts> settings{made_setting("a:1", 2, 9900, 12000)};
  FinalistCost failed = cost("a:1", 1, 1);
  failed.served = false;
  const SettingVerdict verdict = decide_on(settings, {cost("", 1, 1), failed});
  CHECK(verdict.kind == VerdictKind::LeaveUnset);
  CHECK(verdict.why ==
        "no setting tried serves every request; a:1 needs least, 11.7 GiB; unset, measured beside "
        "them, does");
  FinalistCost unset = cost("", 1, 1);
  unset.served = false;
  CHECK(decide_on(settings, {unset, failed}).kind == VerdictKind::NoSetting);
}

TEST_CASE("a job that fits is left unset where nothing is free") {
  const std::vector<SettingFacts> settings{made_setting("", 0, 9900, 9100),
                                           made_setting("a:1", 0, 9200, 8000),
                                           made_setting("b:1", 0, 6000, 6000)};
  const SettingVerdict verdict =
      decide_on(settings, {cost("a:1", 0.99983, 1), cost("", 1, 1), cost("b:1", 3, 1)});
  CHECK(verdict.kind == VerdictKind::LeaveUnset);
  CHECK(verdict.conf.empty());
}

TEST_CASE("time decides where it is a fifth and a millisecond") {
  const std::vector<SettingFacts> settings{made_setting("", 0, 9900, 9100),
                                           made_setting("a:1", 0, 9900, 9000)};
  const SettingVerdict verdict = decide_on(settings, {cost("a:1", 2, 79), cost("", 79, 79)});
  CHECK(verdict.kind == VerdictKind::Paste);
  CHECK(verdict.why == "unset serves every request; a:1 saves 77.00 ms per step");
  CHECK(decide_on(settings, {cost("a:1", 78, 80), cost("", 80, 80)}).kind ==
        VerdictKind::LeaveUnset);
  FinalistCost noisy = cost("a:1", 2, 79);
  noisy.may_be_noise = true;
  CHECK(decide_on(settings, {noisy, cost("", 79, 79)}).kind == VerdictKind::LeaveUnset);
}

TEST_CASE("a job that fails gets the cheapest, and of equal ones what needs least") {
  const std::vector<SettingFacts> settings{
      made_setting("", 3, 9900, 12000), made_setting("a:1", 0, 9900, 9900),
      made_setting("b:1", 0, 9900, 9200), made_setting("c:1", 0, 9000, 9000)};
  const SettingVerdict verdict = decide_on(
      settings, {cost("", 1, 1), cost("a:1", 10, 1), cost("b:1", 11, 1), cost("c:1", 15, 1)});
  CHECK(verdict.kind == VerdictKind::Paste);
  CHECK(verdict.conf == "b:1");
  CHECK(verdict.why ==
        "unset fails 3 requests; b:1 serves every request at 11.00 ms per step, and needs 8.98 GiB "
        "of 9.77 GiB");
}

TEST_CASE("luck at one size serves nobody") {
  const std::vector<SettingFacts> settings{made_setting("", 1, 9900, 12000),
                                           made_setting("a:1", 0, 9900, 10600)};
  const SettingVerdict verdict = decide_on(settings, {cost("a:1", 1, 1), cost("", 1, 1)});
  CHECK(verdict.kind == VerdictKind::NoSetting);
  CHECK(verdict.why ==
        "unset fails 1 request; a:1 serves 9.77 GiB by luck only: it fails with some larger "
        "amounts, up to 10.4 GiB; a:1 needs least, 10.4 GiB");
  // Unset itself may be lucky.
  const std::vector<SettingFacts> lucky{made_setting("", 0, 9900, 10600),
                                        made_setting("a:1", 0, 9000, 9000)};
  CHECK(decide_on(lucky, {cost("", 1, 1), cost("a:1", 5, 1)}).conf == "a:1");
}

TEST_CASE("what is live beyond the capacity is no setting's affair") {
  const SettingVerdict verdict =
      decide({.settings = {}, .costs = {}, .needed_bytes = 12 * kGiB, .capacity_bytes = 10 * kGiB});
  CHECK(verdict.kind == VerdictKind::NoSetting);
  CHECK(verdict.why == "needs 12.0 GiB live, 10.0 GiB are there: 2.00 GiB must go");
}

SearchResult search_of(std::uint64_t hash, std::vector<SettingFacts> settings) {
  SearchResult search;
  search.trace_hash = hash;
  search.settings = std::move(settings);
  return search;
}

TEST_CASE("a setting is as good as on the worst variant of the job") {
  const SearchResult own =
      search_of(1, {made_setting("", 0, 5000, 4000), made_setting("a:1", 0, 5000, 4500),
                    made_setting("b:1", 0, 5000, 4500)});
  const std::vector<VariantSearch> others = distinct_searches(
      own, {{{.name = "seed 2"},
             search_of(2, {made_setting("", 2, 6000, 7000), made_setting("a:1", 0, 1, 1)})},
            {{.name = "seed 3"},
             search_of(1, {made_setting("", 9, 9, 9), made_setting("a:1", 9, 9, 9)})}});
  REQUIRE(others.size() == 1);
  const std::vector<SettingFacts> worst = worst_facts(own, others);
  REQUIRE(worst.size() == 2);
  CHECK(worst[0].oom_count == 2);
  CHECK(worst[0].peak_bytes == 6000 * kMiB);
  CHECK(*worst[0].least_bytes == 7000 * kMiB);
  CHECK(*worst[1].least_bytes == 4500 * kMiB);
  const LeastSpread spread = least_spread("", own, 1, others);
  CHECK(*spread.low_bytes == 4000 * kMiB);
  CHECK(*spread.high_bytes == 7000 * kMiB);
  CHECK(spread.highest == "seed 2");
  CHECK(spread.served_count == 1);
  CHECK(spread.variant_count == 2);
}

TEST_CASE("variants are the next seeds and the longest lengths") {
  const std::vector<JobVariant> variants = other_variants("infer:bert-base", 5, 3);
  REQUIRE(variants.size() == 4);
  CHECK(variants[1].seed == 7);
  CHECK_FALSE(variants[1].is_worst);
  CHECK(variants[2].workload == "infer:bert-base,longest_percent=100");
  CHECK(variants[2].is_worst);
  CHECK(other_variants("gpt2_train_amp", 1, 1).empty());
}

}  // namespace
}  // namespace allocmark

// Drawn request lengths follow the published quantiles of the traces that they come from.
#include "workloads/model/lengths.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/catch.h"

using namespace allocmark;

namespace {

constexpr std::uint64_t kNoLimit = 1'000'000;

std::vector<std::uint64_t> sorted_contexts(LengthSettings settings,
                                           std::vector<std::uint64_t>* generated) {
  settings.context_max = settings.generated_max = kNoLimit;
  Random random(1);
  std::vector<std::uint64_t> contexts;
  for (int i = 0; i < 100'000; ++i) {
    const RequestLengths lengths = draw_lengths(settings, &random);
    contexts.push_back(lengths.context);
    generated->push_back(lengths.generated);
  }
  std::ranges::sort(contexts);
  std::ranges::sort(*generated);
  return contexts;
}

}  // namespace

TEST_CASE("conversation and code lengths have the quantiles of the Azure traces") {
  std::vector<std::uint64_t> generated;
  std::vector<std::uint64_t> contexts =
      sorted_contexts({.source = LengthSource::Conversation}, &generated);
  CHECK(contexts[50'000] == Approx(1020).epsilon(0.02));
  CHECK(contexts[90'000] == Approx(2734).epsilon(0.02));
  CHECK(contexts.back() <= 14'050);
  CHECK(generated[50'000] == Approx(129).epsilon(0.02));
  CHECK(generated[95'000] == Approx(451).epsilon(0.02));
  generated.clear();
  contexts = sorted_contexts({.source = LengthSource::Code}, &generated);
  CHECK(contexts[50'000] == Approx(1469).epsilon(0.02));
  CHECK(contexts[25'000] == Approx(578).epsilon(0.02));
  CHECK(generated[50'000] == Approx(13).margin(1));
  CHECK(generated[99'000] == Approx(251).epsilon(0.05));
}

TEST_CASE("lognormal lengths have the wanted median and spread") {
  std::vector<std::uint64_t> generated;
  const std::vector<std::uint64_t> contexts = sorted_contexts(
      {.source = LengthSource::Lognormal, .median = 1000, .sigma_percent = 70}, &generated);
  CHECK(contexts[50'000] == Approx(1000).epsilon(0.02));
  // exp(0.7) = 2.0138 at the 84.13th percentile, 1 / 2.0138 at the 15.87th.
  CHECK(contexts[84'134] == Approx(2014).epsilon(0.02));
  CHECK(contexts[15'866] == Approx(497).epsilon(0.02));
}

TEST_CASE("lengths are cut at the limits and a prompt has at least one token") {
  Random random(3);
  const LengthSettings settings{.source = LengthSource::Lognormal,
                                .median = 1,
                                .sigma_percent = 300,
                                .context_max = 4,
                                .generated_max = 0};
  for (int i = 0; i < 1000; ++i) {
    const RequestLengths lengths = draw_lengths(settings, &random);
    REQUIRE(lengths.context >= 1);
    REQUIRE(lengths.context <= 4);
    REQUIRE(lengths.generated == 0);
  }
}

TEST_CASE("the longest lengths are what no draw exceeds, cut as all are") {
  const LengthSettings always{.source = LengthSource::Code,
                              .context_max = 100'000,
                              .generated_max = 100'000,
                              .longest_percent = 100};
  Random random(3);
  for (int i = 0; i < 10; ++i) {
    const RequestLengths lengths = draw_lengths(always, &random);
    CHECK(lengths.context == 7437);
    CHECK(lengths.generated == 1899);
  }
  LengthSettings some = always;
  some.longest_percent = 25;
  some.context_max = 7000;
  int longest_count = 0;
  for (int i = 0; i < 1000; ++i) longest_count += draw_lengths(some, &random).context == 7000;
  // A quarter, and the drawn ones of that length.
  CHECK(longest_count > 200);
  CHECK(longest_count < 400);
}

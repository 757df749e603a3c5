// Goal: quantiles are exact by nearest rank up to the stated bucket precision. Method: compare with
// a sorted copy of the samples, over sizes from single picoseconds to hours.
#include "harness/core/measure/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

std::uint64_t exact_quantile(const std::vector<std::uint64_t>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

TEST_CASE("the buckets that are stored hold every sample where the format says") {
  const auto histogram = std::make_unique<Histogram>();
  for (const std::uint64_t value : {0u, 63u, 64u, 127u, 128u, 129u, 130u, 1'000'000u}) {
    histogram->add(value);
  }
  // 1,000,000 = 122.07 * 2^13: octave 13, sub-bucket 122 - 64.
  CHECK(histogram->buckets() == LatencyBuckets{{.index = 0, .count = 1},
                                               {.index = 63, .count = 1},
                                               {.index = 64, .count = 1},
                                               {.index = 127, .count = 1},
                                               {.index = 128, .count = 2},
                                               {.index = 129, .count = 1},
                                               {.index = 14 * 64 + 58, .count = 1}});
}

TEST_CASE("a quantile is within 1/128 of the exact one") {
  for (const unsigned octave_max : {5u, 8u, 16u, 30u, 46u}) {
    Random random(octave_max);
    const auto histogram = std::make_unique<Histogram>();
    std::vector<std::uint64_t> samples;
    for (int i = 0; i < 20'000; ++i) {
      const std::uint64_t value = random.next() >> (63 - random.below(octave_max + 1));
      samples.push_back(value);
      histogram->add(value);
    }
    std::sort(samples.begin(), samples.end());
    for (const double q : {0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
      const auto exact = static_cast<double>(exact_quantile(samples, q));
      const auto got = static_cast<double>(histogram->quantile(q));
      INFO("octaves " << octave_max << ", q " << q << ", exact " << exact << ", got " << got);
      REQUIRE(std::abs(got - exact) <= exact / 128.0);
    }
    REQUIRE(histogram->count() == samples.size());
    REQUIRE(histogram->max() == samples.back());
  }
}

TEST_CASE("values below 128 are kept exactly") {
  for (std::uint64_t value = 0; value < 128; ++value) {
    const auto histogram = std::make_unique<Histogram>();
    histogram->add(value);
    histogram->add(1000);
    REQUIRE(histogram->quantile(0.5) == value);
  }
}

TEST_CASE("nearest rank: the median of an even number of samples is the lower middle one") {
  const auto histogram = std::make_unique<Histogram>();
  for (const std::uint64_t value : {10, 20, 30, 40}) histogram->add(value);
  REQUIRE(histogram->quantile(0.5) == 20);
  REQUIRE(histogram->quantile(0.51) == 30);
  REQUIRE(histogram->quantile(0.25) == 10);
  REQUIRE(histogram->quantile(1.0) == 40);
}

TEST_CASE("an empty histogram has count and quantiles of zero") {
  const auto histogram = std::make_unique<Histogram>();
  REQUIRE(histogram->count() == 0);
  REQUIRE(histogram->quantile(0.5) == 0);
  REQUIRE(histogram->max() == 0);
}

TEST_CASE("values beyond the range are counted and the maximum stays exact") {
  const auto histogram = std::make_unique<Histogram>();
  const std::uint64_t huge = (std::uint64_t{1} << 60) + 12345;
  histogram->add(5);
  histogram->add(huge);
  histogram->add(huge - 1);
  REQUIRE(histogram->count() == 3);
  REQUIRE(histogram->max() == huge);
  REQUIRE(histogram->quantile(1.0) == huge);
  REQUIRE(histogram->quantile(0.1) == 5);
}

TEST_CASE("the top of the range shares its bucket with everything larger") {
  const auto histogram = std::make_unique<Histogram>();
  const std::uint64_t last = (std::uint64_t{1} << Histogram::kValueBits) - 1;
  histogram->add(last);
  histogram->add(~std::uint64_t{0});
  const auto got = static_cast<double>(histogram->quantile(0.5));
  REQUIRE(got == static_cast<double>(~std::uint64_t{0}));
}

TEST_CASE("merging is the same as adding everything to one histogram") {
  Random random(7);
  const auto both = std::make_unique<Histogram>();
  const auto a = std::make_unique<Histogram>();
  const auto b = std::make_unique<Histogram>();
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t value = random.below(1'000'000);
    both->add(value);
    (i % 3 == 0 ? a : b)->add(value);
  }
  a->merge(*b);
  REQUIRE(a->count() == both->count());
  REQUIRE(a->sum() == both->sum());
  REQUIRE(a->max() == both->max());
  for (const double q : {0.1, 0.5, 0.9, 0.99, 1.0}) REQUIRE(a->quantile(q) == both->quantile(q));
}

TEST_CASE("adding a value n times is the same as n additions") {
  const auto one = std::make_unique<Histogram>();
  const auto many = std::make_unique<Histogram>();
  one->add(777, 100);
  one->add(5, 0);
  for (int i = 0; i < 100; ++i) many->add(777);
  REQUIRE(one->count() == 100);
  REQUIRE(one->sum() == many->sum());
  REQUIRE(one->quantile(0.5) == many->quantile(0.5));
}

}  // namespace
}  // namespace allocmark

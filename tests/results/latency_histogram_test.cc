// Goal: stored histograms give the quantiles that the samples have, and intervals that cover the
// true quantile as often as they say. Method: literals for the buckets; simulation with a fixed
// seed for coverage, where the true quantile is known.
#include "results/latency_histogram.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/random.h"
#include "tests/catch.h"

using namespace allocmark;

TEST_CASE("a bucket's bounds are those of the format") {
  CHECK(bucket_lowest_ns(0) == 0);
  CHECK(bucket_lowest_ns(63) == Approx(0.063));
  CHECK(bucket_lowest_ns(64) == Approx(0.064));
  CHECK(bucket_lowest_ns(127) == Approx(0.127));
  CHECK(bucket_lowest_ns(128) == Approx(0.128));
  CHECK(bucket_lowest_ns(129) == Approx(0.130));
  CHECK(bucket_lowest_ns(kLatencyBucketCount) == Approx(std::ldexp(1, 48) * 1e-3));
}

TEST_CASE("a quantile lies in its bucket as far in as its rank") {
  const LatencyBuckets buckets{{.index = 128, .count = 10}, {.index = 192, .count = 10}};
  CHECK(sample_count(buckets) == 20);
  CHECK(quantile_ns(buckets, 0.25).value() == Approx(0.129));
  CHECK(quantile_ns(buckets, 0.75).value() == Approx(0.258));
  CHECK(quantile_ns(buckets, 1).value() == Approx(0.260));
  CHECK_FALSE(quantile_ns({}, 0.5).has_value());
  const LatencyBuckets other{{.index = 5, .count = 1}, {.index = 192, .count = 2}};
  const std::vector<const LatencyBuckets*> both{&buckets, &other};
  CHECK(merge_buckets(both) == LatencyBuckets{{.index = 5, .count = 1},
                                              {.index = 128, .count = 10},
                                              {.index = 192, .count = 12}});
}

TEST_CASE("ranks that enclose a quantile are those of the binomial tables") {
  // Conover, Practical Nonparametric Statistics, section 3.2: the median of 10 at 95 % lies between
  // the 2nd and the 9th; of 6 between the extremes (96.9 %); 5 are too few (93.8 %).
  CHECK(quantile_ranks(10, 0.5, 0.95)->low == 2);
  CHECK(quantile_ranks(10, 0.5, 0.95)->high == 9);
  CHECK(quantile_ranks(6, 0.5, 0.95)->low == 1);
  CHECK(quantile_ranks(6, 0.5, 0.95)->high == 6);
  CHECK_FALSE(quantile_ranks(5, 0.5, 0.95).has_value());
  CHECK_FALSE(quantile_ranks(0, 0.5, 0.95).has_value());
  CHECK_FALSE(quantile_ranks(100, 0.99, 0.95).has_value());
  CHECK_FALSE(quantile_ranks(100, 1.0, 0.95).has_value());
}

TEST_CASE("ranks of any number of samples are found at once") {
  for (const std::uint64_t count :
       {std::uint64_t{999'999'999}, std::uint64_t{1'000'000'001}, std::uint64_t{1} << 40,
        std::uint64_t{1'000'000'000'000'000'000}, std::numeric_limits<std::uint64_t>::max()}) {
    INFO(count);
    const auto ranks = quantile_ranks(count, 0.5, 0.95);
    REQUIRE(ranks.has_value());
    const double middle = static_cast<double>(count) / 2;
    const double reach = 0.98 * std::sqrt(static_cast<double>(count)) + middle * 3e-9 + 2;
    CHECK(static_cast<double>(ranks->low) >= middle - reach);
    CHECK(static_cast<double>(ranks->low) < middle);
    CHECK(static_cast<double>(ranks->high) <= middle + reach);
    CHECK(static_cast<double>(ranks->high) > middle);
  }
}

TEST_CASE("order-statistics intervals cover as often as they say") {
  struct Setting {
    std::uint64_t sample_count;
    double q, confidence;
  };
  // Samples uniform in (0, 1): ranks do not depend on the distribution. Coverage is in steps of
  // about 1 / sqrt(n q (1 - q)) and never below what was asked for.
  for (const Setting& at :
       {Setting{4000, 0.5, 0.95}, Setting{4000, 0.5, 0.99}, Setting{20000, 0.99, 0.95}}) {
    const RankInterval ranks = quantile_ranks(at.sample_count, at.q, at.confidence).value();
    Random random(6);
    int covered = 0;
    constexpr int kTrials = 4000;
    for (int trial = 0; trial < kTrials; ++trial) {
      // X_(low) <= q <= X_(high) exactly where low <= samples below q < high.
      std::uint64_t below = 0;
      for (std::uint64_t i = 0; i < at.sample_count; ++i) below += random.unit() < at.q ? 1 : 0;
      covered += ranks.low <= below && below < ranks.high ? 1 : 0;
    }
    INFO(at.sample_count << " samples, q " << at.q << ", confidence " << at.confidence);
    CHECK(std::abs(static_cast<double>(covered) / kTrials - at.confidence) <= 0.01);
  }
}

TEST_CASE("a quantile's interval reaches to its buckets' edges") {
  const LatencyBuckets buckets{
      {.index = 128, .count = 1000}, {.index = 130, .count = 1000}, {.index = 140, .count = 1000}};
  const Estimate estimate = quantile_interval_ns(buckets, 0.5, 0.95).value();
  CHECK(estimate.value == Approx(0.133));
  CHECK(estimate.low == Approx(0.132));
  CHECK(estimate.high == Approx(0.134));
}

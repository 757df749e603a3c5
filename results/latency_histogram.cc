// Quantiles of stored histograms and the ranks that enclose them.
#include "results/latency_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <vector>

#include <boost/math/distributions/binomial.hpp>
#include <boost/math/distributions/normal.hpp>

#include "base/assert.h"

namespace allocmark {
namespace {

// Beyond so many samples a distribution function takes long, and a rank more or less is no number
// of its own any more.
constexpr std::uint64_t kExactRanksMax = 1'000'000'000;

// The bucket that holds the sample of a 1-based rank, which is at most the count.
const LatencyBucket& bucket_of_rank(const LatencyBuckets& buckets, std::uint64_t rank) {
  std::uint64_t seen = 0;
  for (const LatencyBucket& bucket : buckets) {
    seen += bucket.count;
    if (seen >= rank) return bucket;
  }
  return buckets.back();
}

}  // namespace

double bucket_lowest_ns(std::uint32_t index) {
  ALLOCMARK_ASSERT(index <= kLatencyBucketCount);
  constexpr double kNsPerPicosecond = 1e-3;
  if (index < kLatencySubBucketCount) return index * kNsPerPicosecond;
  const auto octave = static_cast<int>(index / kLatencySubBucketCount) - 1;
  const std::uint32_t mantissa = kLatencySubBucketCount + index % kLatencySubBucketCount;
  return std::ldexp(mantissa, octave) * kNsPerPicosecond;
}

std::uint64_t sample_count(const LatencyBuckets& buckets) {
  std::uint64_t count = 0;
  for (const LatencyBucket& bucket : buckets) count += bucket.count;
  return count;
}

LatencyBuckets merge_buckets(std::span<const LatencyBuckets* const> histograms) {
  std::vector<std::uint64_t> counts(kLatencyBucketCount, 0);
  for (const LatencyBuckets* histogram : histograms) {
    for (const LatencyBucket& bucket : *histogram) counts.at(bucket.index) += bucket.count;
  }
  LatencyBuckets sum;
  for (std::uint32_t index = 0; index < kLatencyBucketCount; ++index) {
    if (counts[index] != 0) sum.push_back({.index = index, .count = counts[index]});
  }
  return sum;
}

std::optional<double> quantile_ns(const LatencyBuckets& buckets, double q) {
  if (buckets.empty()) return std::nullopt;
  const double wanted = std::clamp(q, 0.0, 1.0) * static_cast<double>(sample_count(buckets));
  double seen = 0;
  for (const LatencyBucket& bucket : buckets) {
    const auto count = static_cast<double>(bucket.count);
    if (seen + count >= wanted) {
      const double low = bucket_lowest_ns(bucket.index);
      return low + (bucket_lowest_ns(bucket.index + 1) - low) * (wanted - seen) / count;
    }
    seen += count;
  }
  return bucket_lowest_ns(buckets.back().index + 1);
}

std::optional<double> resolved_quantile_ns(const LatencyBuckets& buckets, double q,
                                           double clock_step_ns) {
  if (buckets.empty()) return std::nullopt;
  const double wanted = std::clamp(q, 0.0, 1.0) * static_cast<double>(sample_count(buckets));
  struct Stretch {
    double low, width, count;
  };
  std::vector<Stretch> stretches;
  double high = 0;
  for (const LatencyBucket& bucket : buckets) {
    const double begin = bucket_lowest_ns(bucket.index);
    const double end = bucket_lowest_ns(bucket.index + 1);
    // No sample can have been below 0.
    const double middle = (begin + end) / 2;
    const double width = std::min(std::max(end - begin, clock_step_ns), 2 * middle);
    stretches.push_back({middle - width / 2, width, static_cast<double>(bucket.count)});
    high = std::max(high, middle + width / 2);
  }
  double low = 0;
  const auto share_below = [](const Stretch& stretch, double value) {
    return std::clamp((value - stretch.low) / stretch.width, 0.0, 1.0);
  };
  // Stretches begin and end in order, so most lie wholly below what is looked for, or above: they
  // are counted once, and a halving looks at the others.
  double counted = 0;
  auto first = stretches.begin();
  auto last = stretches.end();
  // 60 halvings of 281 s are far below a picosecond.
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    double below = counted;
    for (auto stretch = first; stretch != last; ++stretch) {
      below += stretch->count * share_below(*stretch, middle);
    }
    (below < wanted ? low : high) = middle;
    for (; first != last && share_below(*first, low) == 1; ++first) counted += first->count;
    while (first != last && share_below(*std::prev(last), high) == 0) --last;
  }
  return high;
}

std::optional<RankInterval> quantile_ranks(std::uint64_t sample_count, double q,
                                           double confidence) {
  if (sample_count == 0 || !(q > 0 && q < 1)) return std::nullopt;
  if (!(confidence > 0 && confidence < 1)) return std::nullopt;
  const double n = static_cast<double>(sample_count);
  const double tail = (1 - confidence) / 2;
  const boost::math::binomial_distribution<> below(n, q);
  // B samples lie below the quantile. The sample of rank r lies above it where B < r, so ranks low
  // and high enclose it where low <= B < high.
  if (boost::math::pdf(below, 0) > tail || boost::math::pdf(below, n) > tail) return std::nullopt;
  const auto cdf = [&](double b) { return b < 0 ? 0.0 : boost::math::cdf(below, b); };
  const auto beyond = [&](double b) { return boost::math::cdf(complement(below, b)); };
  // Largest low with P(B < low) <= tail, smallest high with P(B >= high) <= tail; the normal
  // approximation starts the search.
  const double spread = std::sqrt(n * q * (1 - q));
  const double z = boost::math::quantile(boost::math::complement(boost::math::normal(), tail));
  double low = std::clamp(std::floor(n * q - z * spread), 1.0, n);
  if (sample_count > kExactRanksMax) {
    // What the approximation is off by is far below a share of 1e-9 of the samples.
    const double off = std::ceil(n * 1e-9);
    return RankInterval{
        .low = static_cast<std::uint64_t>(std::max(low - off, 1.0)),
        .high = static_cast<std::uint64_t>(std::min(std::ceil(n * q + z * spread) + off, n))};
  }
  while (low > 1 && cdf(low - 1) > tail) --low;
  while (low < n && cdf(low) <= tail) ++low;
  double high = std::clamp(std::ceil(n * q + z * spread), 1.0, n);
  while (high < n && beyond(high - 1) > tail) ++high;
  while (high > 1 && beyond(high - 2) <= tail) --high;
  return RankInterval{.low = static_cast<std::uint64_t>(low),
                      .high = static_cast<std::uint64_t>(high)};
}

std::optional<Estimate> quantile_interval_ns(const LatencyBuckets& buckets, double q,
                                             double confidence) {
  const auto ranks = quantile_ranks(sample_count(buckets), q, confidence);
  const auto value = quantile_ns(buckets, q);
  if (!ranks || !value) return std::nullopt;
  return Estimate{.value = *value,
                  .low = bucket_lowest_ns(bucket_of_rank(buckets, ranks->low).index),
                  .high = bucket_lowest_ns(bucket_of_rank(buckets, ranks->high).index + 1)};
}

std::optional<double> trimmed_mean_ns(const LatencyBuckets& buckets, double q) {
  double left = q * static_cast<double>(sample_count(buckets));
  if (left <= 0) return std::nullopt;
  const double kept = left;
  double sum = 0;
  for (const LatencyBucket& bucket : buckets) {
    const double count = std::min(left, static_cast<double>(bucket.count));
    sum += count * (bucket_lowest_ns(bucket.index) + bucket_lowest_ns(bucket.index + 1)) / 2;
    left -= count;
  }
  return sum / kept;
}

}  // namespace allocmark

// The stored latency histograms: what a bucket's index means, and quantiles with the intervals that
// their samples support. Flows in: buckets of one or several passes; flows out: latencies in ns.
// Neither times nor checks allocators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "results/schema.h"

namespace allocmark {

// 64 buckets per power of two, in picoseconds; 2^48 ps (281 s) and more count in the last one.
inline constexpr std::uint32_t kLatencySubBucketCount = 64;
inline constexpr std::uint32_t kLatencyBucketCount = (48 - 6 + 1) * kLatencySubBucketCount;

// Of one pass: 12 hours of calls that take 40 ns each. Sums over passes and products with ranks
// then stay far below 2^64.
inline constexpr std::uint64_t kHistogramSampleCountMax = std::uint64_t{1} << 40;

// The lowest latency of a bucket, and of the bucket after it where index is kLatencyBucketCount.
[[nodiscard]] double bucket_lowest_ns(std::uint32_t index);

[[nodiscard]] std::uint64_t sample_count(const LatencyBuckets& buckets);

// The sum of several passes' histograms.
[[nodiscard]] LatencyBuckets merge_buckets(std::span<const LatencyBuckets* const> histograms);

// The value below which a share q of the samples lies, with the samples of a bucket taken as spread
// evenly over it, so that a shift smaller than a bucket shows. Nothing without samples.
[[nodiscard]] std::optional<double> quantile_ns(const LatencyBuckets& buckets, double q);

// The same where a clock's steps are wider than the buckets: every sample is taken as spread evenly
// over one step around its bucket's middle. Calls begin anywhere within a step, so how many samples
// fall on either side of a step says where between the steps the quantile lies, and a shift smaller
// than a step shows. `clock_step_ns` 0: the buckets alone.
[[nodiscard]] std::optional<double> resolved_quantile_ns(const LatencyBuckets& buckets, double q,
                                                         double clock_step_ns);

// The mean of the fastest share q of the samples, with each at its bucket's middle: what the
// slowest few, which the machine makes, do not move. Nothing without samples.
[[nodiscard]] std::optional<double> trimmed_mean_ns(const LatencyBuckets& buckets, double q);

// A value and the interval that covers the true one with the stated confidence.
struct Estimate {
  double value = 0, low = 0, high = 0;
};

// Ranks (1-based) of the order statistics that enclose the quantile q of the distribution that n
// independent samples come from, with at least this confidence: the binomial distribution says how
// many samples fall below it, whatever the distribution is (David and Nagaraja 2003, section 7.1).
// Nothing where n samples cannot give that confidence.
struct RankInterval {
  std::uint64_t low = 0, high = 0;
};
[[nodiscard]] std::optional<RankInterval> quantile_ranks(std::uint64_t sample_count, double q,
                                                         double confidence);

// The quantile with the interval of quantile_ranks, widened to whole buckets' edges. Calls of one
// pass are not quite independent, so the true interval is wider; use it for how much the samples
// alone can say.
[[nodiscard]] std::optional<Estimate> quantile_interval_ns(const LatencyBuckets& buckets, double q,
                                                           double confidence);

}  // namespace allocmark

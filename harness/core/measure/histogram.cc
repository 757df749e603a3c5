// Quantiles and merging of the log-linear histogram.
#include "harness/core/measure/histogram.h"

#include <algorithm>
#include <cmath>

namespace allocmark {

void Histogram::add(std::uint64_t value, std::uint64_t n) {
  if (n == 0) return;
  counts_[bucket_of(value)] += n;
  count_ += n;
  sum_ += value * n;
  max_ = std::max(max_, value);
}

void Histogram::merge(const Histogram& other) {
  if (other.count_ == 0) return;
  for (std::uint32_t i = 0; i < kBucketCount; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

std::uint64_t Histogram::bucket_middle(std::uint32_t bucket) {
  constexpr std::uint32_t kSubBucketCount = 1u << kSubBucketBits;
  if (bucket < kSubBucketCount) return bucket;
  const std::uint32_t octave = (bucket >> kSubBucketBits) - 1;
  const std::uint64_t lowest = (std::uint64_t{kSubBucketCount} + (bucket & (kSubBucketCount - 1)))
                               << octave;
  return lowest + ((std::uint64_t{1} << octave) >> 1);
}

LatencyBuckets Histogram::buckets() const {
  LatencyBuckets result;
  for (std::uint32_t i = 0; i < kBucketCount; ++i) {
    if (counts_[i] != 0) result.push_back({.index = i, .count = counts_[i]});
  }
  return result;
}

std::uint64_t Histogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const double exact_rank = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const std::uint64_t rank =
      std::clamp(static_cast<std::uint64_t>(exact_rank), std::uint64_t{1}, count_);
  if (rank == count_) return max_;
  std::uint64_t seen = 0;
  for (std::uint32_t i = 0; i < kBucketCount; ++i) {
    seen += counts_[i];
    if (seen >= rank) return i == kBucketCount - 1 ? max_ : std::min(bucket_middle(i), max_);
  }
  return max_;
}

}  // namespace allocmark

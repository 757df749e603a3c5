// A log-linear histogram of fixed memory: counts flow in without allocation or locks, quantiles
// flow out with a relative error of at most 1/128. Values are integers of any unit; the recorder
// uses picoseconds.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "results/latency_histogram.h"
#include "results/schema.h"

namespace allocmark {

class Histogram {
 public:
  // 64 buckets per octave: a bucket at v is v/64 wide at most, and its middle is at most v/128
  // away.
  static constexpr std::uint32_t kSubBucketBits = 6;
  // Values of 2^48 and more (78 hours in picoseconds) count in the last bucket; the maximum is kept
  // exactly.
  static constexpr std::uint32_t kValueBits = 48;
  static constexpr std::uint32_t kBucketCount = (kValueBits - kSubBucketBits + 1) << kSubBucketBits;
  static_assert(kBucketCount == kLatencyBucketCount, "stored buckets are these buckets");

  void add(std::uint64_t value) {
    ++counts_[bucket_of(value)];
    ++count_;
    sum_ += value;
    if (value > max_) max_ = value;
  }

  // Adds n samples of one value.
  void add(std::uint64_t value, std::uint64_t n);

  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] std::uint64_t max() const { return max_; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }

  // Nearest-rank quantile: the smallest value with at least ceil(q * count) samples at or below it,
  // where a value is known up to its bucket, whose middle is returned (never more than max()). 0
  // where there are no samples.
  [[nodiscard]] std::uint64_t quantile(double q) const;

  // The buckets that have samples, by ascending index.
  [[nodiscard]] LatencyBuckets buckets() const;

 private:
  [[nodiscard]] static std::uint32_t bucket_of(std::uint64_t value) {
    constexpr std::uint64_t kSubBucketCount = std::uint64_t{1} << kSubBucketBits;
    if (value < kSubBucketCount) return static_cast<std::uint32_t>(value);
    if (value >> kValueBits) return kBucketCount - 1;
    const auto octave = static_cast<std::uint32_t>(std::bit_width(value)) - kSubBucketBits - 1;
    const auto sub_bucket = static_cast<std::uint32_t>(value >> octave) - kSubBucketCount;
    return static_cast<std::uint32_t>(((octave + 1) << kSubBucketBits) + sub_bucket);
  }
  [[nodiscard]] static std::uint64_t bucket_middle(std::uint32_t bucket);

  std::array<std::uint64_t, kBucketCount> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace allocmark

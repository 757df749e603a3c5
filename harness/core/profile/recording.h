// Durations of driver calls as they are measured: samples by cost and size flow in, in repeats;
// rows of a device profile flow out, each with the interval that its repeats span. Keeps every
// sample. This file does not measure.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace allocmark {

// What was measured: a cost (a name of harness/simcuda/shim/cost.cc), and for those that know
// levels how many bytes were in use, roughly, as one of a few values.
struct CostKey {
  std::string cost;
  std::uint64_t level = 0;
  friend auto operator<=>(const CostKey&, const CostKey&) = default;
};

// One row of a profile (harness/simcuda/MODEL.md): ns, quantiles over the repeats that were not
// disturbed (their median is at most 12 % above the lowest), and between which values the quantiles
// of all single repeats lay.
struct ProfileRow {
  std::uint64_t size = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t min_ns = 0, p10_ns = 0, p50_ns = 0, p90_ns = 0, p99_ns = 0;
  std::uint64_t p999_ns = 0, max_ns = 0;
  std::uint64_t repeat_count = 0;  // repeats with enough samples for the interval
  std::uint64_t p50_ns_low = 0, p50_ns_high = 0;
  std::uint64_t p90_ns_low = 0, p90_ns_high = 0;
};
using ProfileRows = std::map<CostKey, std::vector<ProfileRow>>;

class ProfileRecording {
 public:
  // Samples from here on belong to the next repeat.
  void begin_repeat() { ++repeat_count_; }
  // One call took so long. `size`: bytes or chunks, whatever the cost counts in; 0 where it does
  // not matter.
  void add(const CostKey& key, std::uint64_t size, std::uint64_t duration_ns);
  void add(const char* cost, std::uint64_t size, std::uint64_t duration_ns) {
    add(CostKey{cost}, size, duration_ns);
  }
  // Takes the median of `part` off all samples of `cost`, whose calls could only be timed together
  // with one of `part`.
  void take_off(std::string_view cost, std::string_view part);
  // Rows by rising size. Rows of fewer than `sample_count_min` samples are left out, but for the
  // largest row of a cost.
  [[nodiscard]] ProfileRows rows(std::uint64_t sample_count_min) const;
  // The names of all costs that have samples.
  [[nodiscard]] std::vector<std::string> costs() const;
  // take(size, duration_ns) for every sample of a cost where least memory was in use, by rising
  // size.
  template <class Take>
  void at_lowest_level(std::string_view cost, Take&& take) const {
    const auto found = samples_.lower_bound(CostKey{std::string(cost), 0});
    if (found == samples_.end() || found->first.cost != cost) return;
    for (const auto& [size, samples] : found->second) {
      for (const Sample& sample : samples) take(size, sample.duration_ns);
    }
  }
  [[nodiscard]] std::uint64_t repeat_count() const { return repeat_count_; }
  [[nodiscard]] std::uint64_t median_ns(std::string_view cost) const;  // over all sizes; 0 if none

 private:
  struct Sample {
    std::uint64_t repeat = 0;
    std::uint64_t duration_ns = 0;
  };
  using BySize = std::map<std::uint64_t, std::vector<Sample>>;
  [[nodiscard]] static ProfileRow make_row(std::uint64_t size, const std::vector<Sample>& samples);

  std::map<CostKey, BySize> samples_;
  std::uint64_t repeat_count_ = 0;
};

}  // namespace allocmark

// Drift, outliers and modes of a cell's passes.
#include "results/compare/stability.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/median.h"
#include "results/derived.h"
#include "results/statistics/percentile.h"

namespace allocmark {
namespace {

struct Bin {
  double low_ns = 0, high_ns = 0;
  double count = 0;
};

// The histogram in bins that are wide enough for neither the buckets nor the clock to show.
std::vector<Bin> bins_of(const LatencyBuckets& buckets, double clock_step_ns) {
  constexpr double kEighthOctave = 1.0905077326652577;
  std::vector<Bin> bins;
  if (buckets.empty()) return bins;
  const double end = bucket_lowest_ns(buckets.back().index + 1);
  // Edges between the clock's readings, not on them.
  double low = std::max(bucket_lowest_ns(buckets.front().index) - clock_step_ns / 2, 1e-3);
  // One at least: samples of 0, as a coarse clock reads them, end where the first bin begins.
  do {
    const double high = std::max(low * kEighthOctave, low + std::max(clock_step_ns, 1e-3));
    bins.push_back({.low_ns = low, .high_ns = high});
    low = high;
  } while (low < end);
  std::size_t at = 0;
  for (const LatencyBucket& bucket : buckets) {
    const double middle = (bucket_lowest_ns(bucket.index) + bucket_lowest_ns(bucket.index + 1)) / 2;
    while (at + 1 < bins.size() && middle >= bins[at].high_ns) ++at;
    bins[at].count += static_cast<double>(bucket.count);
  }
  return bins;
}

std::size_t highest(const std::vector<Bin>& bins, std::size_t begin, std::size_t end) {
  const auto first = bins.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = bins.begin() + static_cast<std::ptrdiff_t>(end);
  const auto found =
      std::max_element(first, last, [](const Bin& a, const Bin& b) { return a.count < b.count; });
  return static_cast<std::size_t>(found - bins.begin());
}

double mass(const std::vector<Bin>& bins, std::size_t begin, std::size_t end) {
  double sum = 0;
  for (std::size_t i = begin; i < end; ++i) sum += bins[i].count;
  return sum;
}

std::vector<double> pass_medians(const CellResult& cell, bool allocate) {
  std::vector<double> values;
  for (const PassSummary& pass : cell.passes) {
    const LatencyBuckets& buckets = allocate ? pass.allocate_buckets : pass.deallocate_buckets;
    const double stored = allocate ? pass.allocate_p50_ns : pass.deallocate_p50_ns;
    const double value = quantile_ns(buckets, 0.5).value_or(stored);
    if (value > 0 && std::isfinite(value)) values.push_back(value);
  }
  return values;
}

// Whether values this far apart are told apart by the clock at all.
bool is_resolved(std::span<const double> values, double clock_step_ns) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return *high - *low > clock_step_ns;
}

void add_flags(const CellResult& cell, bool allocate, double clock_step_ns,
               std::vector<std::string>& flags) {
  const char* name = allocate ? "allocate" : "deallocate";
  const std::vector<double> values = pass_medians(cell, allocate);
  if (values.size() >= 2 && is_resolved(values, clock_step_ns)) {
    if (const auto share = drift(values)) {
      flags.push_back(
          fmt::format("{}: P50 drifts by {:+.3g} % over the passes", name, *share * 100));
    }
    for (const std::size_t index : outliers(values)) {
      flags.push_back(fmt::format("{}: pass {} of {} stands apart: P50 {:.4g} ns, median {:.4g} ns",
                                  name, index + 1, values.size(), values[index], median(values)));
    }
  }
  std::vector<const LatencyBuckets*> histograms;
  for (const PassSummary& pass : cell.passes) {
    histograms.push_back(allocate ? &pass.allocate_buckets : &pass.deallocate_buckets);
  }
  if (const auto modes = two_modes(merge_buckets(histograms), clock_step_ns)) {
    flags.push_back(
        fmt::format("{}: two kinds of latency, near {:.3g} and {:.3g} ns: a quantile "
                    "between them moves with their shares",
                    name, modes->first, modes->second));
  }
}

}  // namespace

std::optional<double> drift(std::span<const double> values) {
  if (values.size() < kDriftPassCountMin) return std::nullopt;
  constexpr double kZ99 = 2.5758293035489004;
  double order = 0;
  std::vector<double> slopes;
  for (std::size_t later = 1; later < values.size(); ++later) {
    for (std::size_t earlier = 0; earlier < later; ++earlier) {
      const double rise = std::log(values[later]) - std::log(values[earlier]);
      order += rise > 0 ? 1 : rise < 0 ? -1 : 0;
      slopes.push_back(rise / static_cast<double>(later - earlier));
    }
  }
  const auto n = static_cast<double>(values.size());
  const double spread = std::sqrt(n * (n - 1) * (2 * n + 5) / 18);
  if ((std::abs(order) - 1) / spread < kZ99) return std::nullopt;
  const double share = std::expm1(median(slopes) * (n - 1));
  return std::abs(share) >= kDriftMin ? std::optional(share) : std::nullopt;
}

std::vector<std::size_t> outliers(std::span<const double> values) {
  std::vector<std::size_t> found;
  if (values.size() < 3) return found;
  const double middle = median({values.begin(), values.end()});
  std::vector<double> deviations;
  for (const double value : values) deviations.push_back(std::abs(value - middle));
  const double reach = std::max(3.5 * 1.4826 * median(deviations), kOutlierMin * middle);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (deviations[i] > reach) found.push_back(i);
  }
  return found;
}

std::optional<std::pair<double, double>> two_modes(const LatencyBuckets& buckets,
                                                   double clock_step_ns) {
  const std::vector<Bin> bins = bins_of(buckets, clock_step_ns);
  const auto total = static_cast<double>(sample_count(buckets));
  if (!has_enough_samples(kP90, sample_count(buckets))) return std::nullopt;
  // The cut with the emptiest bin that leaves a fifth of the samples on both sides.
  std::optional<std::size_t> cut;
  double below = 0;
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const double above = total - below - bins[i].count;
    const bool balanced = below >= total / 5 && above >= total / 5;
    if (balanced && (!cut || bins[i].count < bins[*cut].count)) cut = i;
    below += bins[i].count;
  }
  if (!cut) return std::nullopt;
  const std::size_t first = highest(bins, 0, *cut);
  const std::size_t second = highest(bins, *cut + 1, bins.size());
  const double lower_peak = std::min(bins[first].count, bins[second].count);
  // A long flat tail has no peak: the second kind must gather in few bins, too.
  const std::size_t reach_end = std::min(bins.size(), second + 3);
  const std::size_t reach_begin = std::max(*cut + 1, second < 2 ? std::size_t{0} : second - 2);
  if (bins[*cut].count >= lower_peak / 2) return std::nullopt;
  if (mass(bins, reach_begin, reach_end) < total / 20) return std::nullopt;
  const auto middle = [](const Bin& bin) { return (bin.low_ns + bin.high_ns) / 2; };
  return std::pair(middle(bins[first]), middle(bins[second]));
}

std::vector<std::string> stability_flags(const CellResult& cell, double clock_step_ns) {
  std::vector<std::string> flags;
  if (!is_measured(cell)) return flags;
  add_flags(cell, true, clock_step_ns, flags);
  add_flags(cell, false, clock_step_ns, flags);
  return flags;
}

}  // namespace allocmark

// See recording.h.
#include "harness/core/profile/recording.h"

#include <algorithm>

namespace allocmark {
namespace {

// A repeat with fewer samples of a row says nothing of its own about it.
constexpr std::size_t kRepeatSampleCountMin = 5;
// A repeat whose median is so much above the lowest one was disturbed by others of the host.
constexpr double kDisturbedRatio = 1.12;

// Nearest rank of sorted values.
std::uint64_t quantile(const std::vector<std::uint64_t>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

void widen(std::uint64_t value, bool is_first, std::uint64_t* low, std::uint64_t* high) {
  *low = is_first ? value : std::min(*low, value);
  *high = is_first ? value : std::max(*high, value);
}

}  // namespace

void ProfileRecording::add(const CostKey& key, std::uint64_t size, std::uint64_t duration_ns) {
  samples_[key][size].push_back({.repeat = repeat_count_, .duration_ns = duration_ns});
}

std::vector<std::string> ProfileRecording::costs() const {
  std::vector<std::string> names;
  for (const auto& [key, by_size] : samples_) {
    if (names.empty() || names.back() != key.cost) names.push_back(key.cost);
  }
  return names;
}

std::uint64_t ProfileRecording::median_ns(std::string_view cost) const {
  std::vector<std::uint64_t> all;
  for (const auto& [key, by_size] : samples_) {
    if (key.cost != cost) continue;
    for (const auto& [size, samples] : by_size) {
      for (const Sample& sample : samples) all.push_back(sample.duration_ns);
    }
  }
  if (all.empty()) return 0;
  std::sort(all.begin(), all.end());
  return quantile(all, 0.5);
}

void ProfileRecording::take_off(std::string_view cost, std::string_view part) {
  const std::uint64_t part_ns = median_ns(part);
  for (auto& [key, by_size] : samples_) {
    if (key.cost != cost) continue;
    for (auto& [size, samples] : by_size) {
      for (Sample& sample : samples) sample.duration_ns -= std::min(sample.duration_ns, part_ns);
    }
  }
}

ProfileRow ProfileRecording::make_row(std::uint64_t size, const std::vector<Sample>& samples) {
  std::map<std::uint64_t, std::vector<std::uint64_t>> by_repeat;
  for (const Sample& sample : samples) by_repeat[sample.repeat].push_back(sample.duration_ns);
  ProfileRow row{.size = size};
  for (auto& [repeat, values] : by_repeat) {
    std::sort(values.begin(), values.end());
    if (values.size() < kRepeatSampleCountMin) continue;
    const bool is_first = row.repeat_count == 0;
    widen(quantile(values, 0.5), is_first, &row.p50_ns_low, &row.p50_ns_high);
    widen(quantile(values, 0.9), is_first, &row.p90_ns_low, &row.p90_ns_high);
    ++row.repeat_count;
  }
  const auto limit_ns =
      static_cast<std::uint64_t>(static_cast<double>(row.p50_ns_low) * kDisturbedRatio);
  std::vector<std::uint64_t> all;
  for (const auto& [repeat, values] : by_repeat) {
    const bool is_disturbed = row.repeat_count > 0 && quantile(values, 0.5) > limit_ns;
    if (!is_disturbed) all.insert(all.end(), values.begin(), values.end());
  }
  std::sort(all.begin(), all.end());
  row.sample_count = all.size();
  row.min_ns = all.front();
  row.p10_ns = quantile(all, 0.1);
  row.p50_ns = quantile(all, 0.5);
  row.p90_ns = quantile(all, 0.9);
  row.p99_ns = quantile(all, 0.99);
  row.p999_ns = quantile(all, 0.999);
  row.max_ns = all.back();
  return row;
}

ProfileRows ProfileRecording::rows(std::uint64_t sample_count_min) const {
  ProfileRows result;
  for (const auto& [key, by_size] : samples_) {
    std::vector<ProfileRow>& rows = result[key];
    for (const auto& [size, samples] : by_size) {
      if (samples.size() >= sample_count_min) rows.push_back(make_row(size, samples));
    }
    if (!rows.empty()) continue;
    const auto most = std::max_element(
        by_size.begin(), by_size.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    rows.push_back(make_row(most->first, most->second));
  }
  return result;
}

}  // namespace allocmark

// The grid of settings.
#include "harness/core/search/grid.h"

#include <array>
#include <string_view>

#include "allocators/caching/config.h"
#include "allocators/caching/explain.h"

namespace allocmark {
namespace {

// How memory is taken and cut: of these a user sets one.
constexpr std::array<std::string_view, 10> kCuts{
    "expandable_segments:True", "max_split_size_mb:32",     "max_split_size_mb:64",
    "max_split_size_mb:128",    "max_split_size_mb:256",    "max_split_size_mb:512",
    "max_split_size_mb:1024",   "large_segment_size_mb:40", "large_segment_size_mb:64",
    "large_segment_size_mb:128"};
// How requests are rounded: goes with each of the above.
constexpr std::array<std::string_view, 4> kRoundings{
    "roundup_power2_divisions:2", "roundup_power2_divisions:4", "roundup_power2_divisions:8",
    "roundup_power2_divisions:16"};
// Settings that go with no other.
constexpr std::array<std::string_view, 1> kAlone{"backend:cudaMallocAsync"};
// Pairs of cuts that do not exclude each other.
constexpr std::array<std::string_view, 2> kPairs{
    "expandable_segments:True,large_segment_size_mb:64",
    "max_split_size_mb:256,large_segment_size_mb:64"};
constexpr std::size_t kSettingCountMax = 40;

bool is_good(const std::string& conf, const caching::Rules& rules) {
  return !caching::parse_strict(conf, rules).error && caching::conf_notes(conf, rules).empty();
}

void add(std::string conf, const caching::Rules& rules, std::vector<std::string>* settings) {
  const bool room = settings->size() < kSettingCountMax;
  if (room && is_good(conf, rules)) settings->push_back(std::move(conf));
}

}  // namespace

std::vector<std::string> single_settings(const caching::Rules& rules) {
  std::vector<std::string> settings{""};
  for (const std::string_view one : kCuts) add(std::string(one), rules, &settings);
  for (const std::string_view one : kRoundings) add(std::string(one), rules, &settings);
  for (const std::string_view one : kAlone) add(std::string(one), rules, &settings);
  return settings;
}

std::vector<std::string> all_settings(const caching::Rules& rules) {
  std::vector<std::string> settings = single_settings(rules);
  for (const std::string_view pair : kPairs) add(std::string(pair), rules, &settings);
  // The finest rounding wastes least; coarser ones fill what is left of the grid.
  for (auto rounding = kRoundings.rbegin(); rounding != kRoundings.rend(); ++rounding) {
    for (const std::string_view cut : kCuts) {
      add(std::string(cut) + "," + std::string(*rounding), rules, &settings);
    }
  }
  return settings;
}

}  // namespace allocmark

// Round trip: a simulated device made from a profile is measured, and the measurement gives the
// profile back. The profile is the one that ships, changed so that no cost, level or size looks
// like another. In a process of its own, because a process has one profile.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/core/profile/profile.h"
#include "results/schema.h"
#include "tests/catch.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// Medians come back within 15 %, 90 % quantiles within 35 %: a few hundred samples of a
// distribution whose tail is long, and at levels that a churn only reaches on average.
constexpr double kMedianRatioMax = 1.15;
constexpr double kP90RatioMax = 1.35;
constexpr std::uint64_t kSampleCountMin = 40;
constexpr std::uint64_t kRecordedSampleCount = 1000;
constexpr std::uint64_t kCleanBytesPerUs = 400'000;

// [size, n, min, p10, p50, p90, p99, p999, max] around a median.
Json row_around(const Json& size, double median_ns) {
  Json row = {size, kRecordedSampleCount};
  for (const double factor : {0.8, 0.9, 1.0, 1.2, 1.6, 1.8, 2.0}) {
    row.push_back(static_cast<std::uint64_t>(median_ns * factor));
  }
  return row;
}

std::vector<std::pair<std::uint64_t, Json>> levels_of(const Json& cost) {
  if (!cost.is_object()) return {{0, cost}};
  std::map<std::uint64_t, Json> levels;
  for (const auto& [level, rows] : cost.items()) levels[std::stoull(level)] = rows;
  return {levels.begin(), levels.end()};
}

double ratio(double a, double b) { return a > b ? a / b : b / a; }

struct Temporary {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("allocmark_profile_" + std::to_string(getpid()) + ".json"))
                         .string();
  ~Temporary() { std::filesystem::remove(path); }
};

// The shape of a profile as 'allocmark profile' writes it, with values of our own.
Json make_profile(const DeviceProfile& shape, Json shipped) {
  Json costs = Json::object();
  double factor = 1;
  double level_factor = 1;  // a program wanders between levels, so neighbours are alike
  std::string cost;
  for (const auto& [key, rows] : shape.costs) {
    if (key.cost != cost) factor = factor > 3 ? 1 : factor * 1.21;
    level_factor = key.cost == cost ? level_factor * 1.12 : 1;
    cost = key.cost;
    Json changed = Json::array();
    double median_ns = 2000 * factor * level_factor;
    for (const ProfileRow& row : rows) {
      changed.push_back(row_around(row.size, median_ns));
      median_ns *= 1.15;
    }
    if (key.level == 0) {
      costs[key.cost] = changed;
    } else {
      costs[key.cost][std::to_string(key.level)] = changed;
    }
  }
  costs["cudaMalloc.wait_for_clean"] = Json::array({row_around(0, 6'000'000)});
  shipped["costs"] = costs;
  shipped["device"]["clean_bytes_per_us"] = kCleanBytesPerUs;
  return shipped;
}

}  // namespace

// One process measures the shape (which costs, levels and sizes there are) on the profile that
// ships, and a second one, this program again, measures the profile made from it.
TEST_CASE("a profile of a simulated device is the one that it was made from") {
  const char* const made = std::getenv("ALLOCMARK_TEST_MADE_PROFILE");
  if (made == nullptr) {
    const Temporary file;
    std::ifstream shipped(std::string(ALLOCMARK_PROFILES_FOLDER) + "/h200.json");
    const DeviceProfile shape = measure_profile({.repeat_count = 1});
    std::ofstream(file.path) << make_profile(shape, Json::parse(shipped)).dump();
    const std::string command = "ALLOCMARK_TEST_MADE_PROFILE='" + file.path +
                                "' SIMCUDA_PROFILE='" + file.path + "' '" +
                                std::filesystem::read_symlink("/proc/self/exe").string() + "'";
    CHECK(std::system(command.c_str()) == 0);
    return;
  }
  std::ifstream file(made);
  const Json wanted = Json::parse(file);
  const DeviceProfile profile = measure_profile({.repeat_count = 4});
  const Json got = Json::parse(to_json_text(profile, Environment{}));

  CHECK(got["schema"] == wanted["schema"]);
  for (const char* key :
       {"name", "total_bytes", "free_bytes_initial", "page_limit", "chunk_limit"}) {
    INFO(key);
    CHECK(got["device"][key] == wanted["device"][key]);
  }
  CHECK(ratio(got["device"]["clean_bytes_per_us"].get<double>(), kCleanBytesPerUs) < 1.03);
  std::size_t compared = 0;
  for (const auto& [cost, value] : wanted["costs"].items()) {
    REQUIRE(got["costs"].contains(cost));
    const auto wanted_levels = levels_of(value);
    const auto got_levels = levels_of(got["costs"][cost]);
    REQUIRE(wanted_levels.size() == got_levels.size());
    for (std::size_t level = 0; level < wanted_levels.size(); ++level) {
      CHECK(wanted_levels[level].first == got_levels[level].first);
      for (const Json& row : got_levels[level].second) {
        const auto& rows = wanted_levels[level].second;
        const auto same = std::find_if(rows.begin(), rows.end(),
                                       [&](const Json& other) { return other[0] == row[0]; });
        if (same == rows.end() || row[1].get<std::uint64_t>() < kSampleCountMin) continue;
        INFO(cost << ", level " << wanted_levels[level].first << ": wanted " << *same << ", got "
                  << row);
        CHECK(ratio(row[4].get<double>(), (*same)[4].get<double>()) < kMedianRatioMax);
        CHECK(ratio(row[5].get<double>(), (*same)[5].get<double>()) < kP90RatioMax);
        ++compared;
      }
    }
  }
  CHECK(compared > 60);
}

}  // namespace allocmark

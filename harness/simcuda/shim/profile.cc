#include "harness/simcuda/shim/profile.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "base/number_text.h"
#include "harness/simcuda/shim/cost.h"

namespace simcuda {
namespace {

using Json = nlohmann::json;

constexpr int kSchema = 3;

[[noreturn]] void reject(const std::string& path, const std::string& what) {
  throw std::runtime_error("profile " + path + ": " + what +
                           "; make profiles with: allocmark profile");
}

std::vector<CostRow> read_rows(const std::string& path, const std::string& key, const Json& rows) {
  if (!rows.is_array() || rows.empty()) {
    reject(path, "costs." + key + ": wanted a list of rows, got " + rows.dump().substr(0, 40));
  }
  std::vector<CostRow> result;
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != 9) {
      reject(path, "costs." + key + ": wanted rows [size,n,min,p10,p50,p90,p99,p999,max], got " +
                       row.dump());
    }
    const auto numbers = row.get<std::array<std::uint64_t, 9>>();
    const CostRow cost{.size = numbers[0],
                       .sample_count = numbers[1],
                       .min_ns = numbers[2],
                       .p10_ns = numbers[3],
                       .p50_ns = numbers[4],
                       .p90_ns = numbers[5],
                       .p99_ns = numbers[6],
                       .p999_ns = numbers[7],
                       .max_ns = numbers[8]};
    const bool rising = std::is_sorted(numbers.begin() + 2, numbers.end()) &&
                        cost.max_ns < (std::uint64_t{1} << 40);
    if (!rising || cost.sample_count == 0 || (!result.empty() && result.back().size >= cost.size)) {
      reject(path, "costs." + key + ": sizes and quantiles must rise, got row " + row.dump());
    }
    result.push_back(cost);
  }
  return result;
}

// A list of rows, or an object of such lists by level.
std::vector<CostLevel> read_levels(const std::string& path, const std::string& key,
                                   const Json& value) {
  if (!value.is_object()) return {{.level = 0, .rows = read_rows(path, key, value)}};
  std::vector<CostLevel> levels;
  for (const auto& [text, rows] : value.items()) {
    const std::optional<std::uint64_t> level = allocmark::number_in_text<std::uint64_t>(text);
    if (!level) {
      reject(path, "costs." + key + ": wanted a number for a level, got '" + text + "'");
    }
    levels.push_back({.level = *level, .rows = read_rows(path, key + "." + text, rows)});
  }
  std::ranges::sort(levels, {}, &CostLevel::level);
  return levels;
}

void read_costs(const std::string& path, const Json& costs) {
  for (std::size_t i = 0; i < kCostCount; ++i) {
    const CostId cost = static_cast<CostId>(i);
    const std::string key(cost_name(cost));
    if (!costs.contains(key)) {
      reject(path, "costs." + key + " is missing");
    }
    if (!set_cost_curves(cost, read_levels(path, key, costs.at(key)))) {
      reject(path,
             "costs." + key + ": wanted 1 to 4 levels of 1 to 28 rows, clearly different in size");
    }
  }
}

Profile read_device(const std::string& path, const Json& device) {
  Profile profile;
  profile.device_name = device.at("name").get<std::string>();
  profile.driver_version = device.at("driver_version").get<std::string>();
  profile.cuda_version = device.at("cuda_version").get<int>();
  profile.total_bytes = device.at("total_bytes").get<std::uint64_t>();
  profile.free_bytes_initial = device.at("free_bytes_initial").get<std::uint64_t>();
  profile.page_limit = device.at("page_limit").get<std::uint64_t>();
  profile.chunk_limit = device.at("chunk_limit").get<std::uint64_t>();
  profile.clean_bytes_per_us = device.at("clean_bytes_per_us").get<std::uint64_t>();
  profile.temperature_celsius = device.at("temperature_celsius").get<std::uint32_t>();
  profile.power_milliwatt = device.at("power_milliwatt").get<std::uint32_t>();
  profile.power_limit_milliwatt = device.at("power_limit_milliwatt").get<std::uint32_t>();
  for (const auto& [id, value] : device.at("attributes").get<std::vector<std::array<int, 2>>>()) {
    profile.attributes[id] = value;
  }
  for (const auto& [id, value] :
       device.at("limits").get<std::vector<std::array<std::uint64_t, 2>>>()) {
    profile.limits[static_cast<int>(id)] = value;
  }
  if (profile.free_bytes_initial > profile.total_bytes || profile.page_limit == 0 ||
      profile.total_bytes >= (std::uint64_t{1} << 46)) {
    reject(path, "device: free_bytes_initial, page_limit and total_bytes do not fit together");
  }
  return profile;
}

}  // namespace

Profile load_profile(const std::string& name_or_path, const std::string& folder) {
  const bool is_path =
      name_or_path.find('/') != std::string::npos || name_or_path.ends_with(".json");
  const std::string path = is_path ? name_or_path : folder + "/" + name_or_path + ".json";
  std::ifstream file(path);
  if (!file) {
    reject(path, "cannot be read (SIMCUDA_PROFILE wants a name in " + folder + " or a path)");
  }
  const Json json = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    reject(path, "wanted a JSON object");
  }
  try {
    if (json.at("schema").get<int>() != kSchema) {
      reject(path,
             "schema: wanted " + std::to_string(kSchema) + ", got " + json.at("schema").dump());
    }
    read_costs(path, json.at("costs"));
    return read_device(path, json.at("device"));
  } catch (const Json::exception& error) {
    // Without the library's mark, "[json.exception.type_error.302] ".
    const std::string words = error.what();
    const std::size_t mark = words.find("] ");
    reject(path, mark == std::string::npos ? words : words.substr(mark + 2));
  }
}

}  // namespace simcuda

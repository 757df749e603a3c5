// See baseline.h.
#include "harness/tools/qualify/baseline.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "harness/h100_alone.h"

namespace allocmark::qualify {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

// Rows begin with size and sample count. The first profiles go on with P50, P90, P99 and the
// maximum; since then minimum and P10 come before, and P99.9 may come before the maximum.
BaselineRow read_row(const Json& json) {
  const auto numbers = json.get<std::vector<double>>();
  constexpr std::size_t kNumbersMin = 6, kNumbersWithLowerMin = 8;
  // Larger numbers are no whole numbers of a double any more.
  constexpr double kNumberMax = 9007199254740992;
  const auto is_possible = [](double number) { return number >= 0 && number <= kNumberMax; };
  if ((numbers.size() != kNumbersMin && numbers.size() < kNumbersWithLowerMin) ||
      !std::ranges::all_of(numbers, is_possible)) {
    throw std::out_of_range("a row of " + json_text(json));
  }
  const std::size_t p50_index = numbers.size() == kNumbersMin ? 2 : 4;
  return {.size_bytes = static_cast<std::uint64_t>(numbers[0]),
          .sample_count = static_cast<std::uint64_t>(numbers[1]),
          .p50_ns = numbers[p50_index],
          .p90_ns = numbers[p50_index + 1]};
}

// Where a call's time depends on the bytes in use there is a list of rows per level; tests run on
// an empty GPU, so the lowest is theirs.
const Json& lowest_level(const Json& cost) {
  if (!cost.is_object()) return cost;
  const auto level_of = [](const std::string& text) { return std::stoull(text); };
  auto lowest = cost.begin();
  for (auto at = cost.begin(); at != cost.end(); ++at) {
    if (level_of(at.key()) < level_of(lowest.key())) lowest = at;
  }
  return lowest.value();
}

JsonSource wanted_of(const std::string& path) {
  return {.where = path,
          .what = "this is no baseline",
          .wanted = "a device profile, as 'allocmark profile' writes it",
          .next = "see: allocmark qualify --help"};
}

// `path` names the text.
Baseline baseline_from_json(std::string_view text, const std::string& path) {
  try {
    const Json json = parse_json(text, wanted_of(path));
    const Json& device = json.at("device");
    Baseline baseline{.path = path,
                      .gpu_name = device.at("name").get<std::string>(),
                      .memory_bytes = device.at("total_bytes").get<std::uint64_t>(),
                      .machine_gpu_count = device.value("machine_gpu_count", 1)};
    for (const auto& [call, rows] : json.at("costs").items()) {
      for (const Json& row : lowest_level(rows)) baseline.rows[call].push_back(read_row(row));
    }
    return baseline;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    refuse_json(wanted_of(path), json_reason(error));
  }
}

}  // namespace

Baseline read_baseline(const std::string& path) {
  return baseline_from_json(read_file(path, kSettingsInput), path);
}

std::optional<Baseline> find_baseline(const std::string& folder, const std::string& gpu_name,
                                      int machine_gpu_count) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path().string());
  }
  std::ranges::sort(paths);
  std::optional<Baseline> best;
  const auto rank = [&](const Baseline& each) {
    return std::pair(std::abs(each.machine_gpu_count - machine_gpu_count), each.machine_gpu_count);
  };
  const auto look_at = [&](Baseline baseline) {
    if (baseline.gpu_name != gpu_name) return;
    if (!best || rank(baseline) < rank(*best)) best = std::move(baseline);
  };
  for (const std::string& path : paths) look_at(read_baseline(path));
  look_at(baseline_from_json(kH100Alone, "h100_alone.json"));
  return best;
}

}  // namespace allocmark::qualify

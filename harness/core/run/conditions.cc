// See conditions.h.
#include "harness/core/run/conditions.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/input_file.h"
#include "base/json_text.h"
#include "base/output_file.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kConditionsName = "conditions.json";
// Above these the measurement is disturbed more than a careful user would accept.
constexpr double kStealShareMax = 0.01;
constexpr double kOtherCpuShareMax = 0.1;
constexpr double kThrottledShareMax = 0.001;
constexpr double kHostSlowdownMax = 1.1;
// A run shorter than this is over before the counters, which step by 10 ms, say anything.
constexpr double kWallMinS = 0.5;

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double cpu_s(int who) {
  rusage usage{};
  return getrusage(who, &usage) == 0 ? seconds(usage.ru_utime) + seconds(usage.ru_stime) : 0;
}

// The first line of /proc/stat: user nice system idle iowait irq softirq steal guest guest_nice, in
// ticks; guest time is in user time already.
void read_cpu_times(HostCounters& counters) {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  std::istringstream words(line);
  std::string name;
  std::array<double, 8> ticks{};
  words >> name;
  for (double& value : ticks) words >> value;
  const auto per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (!words || name != "cpu" || per_second <= 0) return;
  constexpr std::size_t kSteal = 7;
  counters.busy_cpu_s = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / per_second;
  counters.steal_cpu_s = ticks[kSteal] / per_second;
}

std::optional<std::uint64_t> read_throttled_us() {
  std::ifstream file("/sys/fs/cgroup/cpu.stat");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "throttled_usec") return value;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> read_thermal_throttles() {
  std::optional<std::uint64_t> sum;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator("/sys/devices/system/cpu", error)) {
    std::ifstream file(entry.path() / "thermal_throttle/core_throttle_count");
    std::uint64_t count = 0;
    if (file >> count) sum = sum.value_or(0) + count;
  }
  return sum;
}

template <typename Number>
std::optional<Number> growth(const std::optional<Number>& begin, const std::optional<Number>& end) {
  if (!begin || !end || *end < *begin) return std::nullopt;
  return *end - *begin;
}

std::string path_of(const std::string& folder) {
  return (fs::path(folder) / kConditionsName).string();
}

std::vector<std::string> stored_warnings(const std::string& folder) {
  const std::string path = path_of(folder);
  if (!fs::exists(path)) return {};
  return conditions_from_json(read_file(path, kSettingsInput), path).warnings;
}

// Every number besides the wall time, in the file's order: what the host does not tell is null.
template <typename SomeConditions, typename Visit>
void visit_numbers(SomeConditions& conditions, Visit&& visit) {
  visit("other_cpu_count", conditions.other_cpu_count);
  visit("steal_share", conditions.steal_share);
  visit("load_average_begin", conditions.load_average_begin);
  visit("load_average_end", conditions.load_average_end);
  visit("throttled_s", conditions.throttled_s);
  visit("thermal_throttle_count", conditions.thermal_throttle_count);
  visit("host_slowdown", conditions.host_slowdown);
}

}  // namespace

HostCounters read_host_counters() {
  HostCounters counters;
  counters.wall_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  counters.own_cpu_s = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
  read_cpu_times(counters);
  double load = 0;
  if (getloadavg(&load, 1) == 1) counters.load_average = load;
  counters.throttled_us = read_throttled_us();
  counters.thermal_throttle_count = read_thermal_throttles();
  return counters;
}

Conditions conditions_between(const HostCounters& begin, const HostCounters& end,
                              std::uint64_t cpu_count) {
  Conditions conditions{.wall_s = end.wall_s - begin.wall_s};
  conditions.load_average_begin = begin.load_average;
  conditions.load_average_end = end.load_average;
  conditions.thermal_throttle_count =
      growth(begin.thermal_throttle_count, end.thermal_throttle_count);
  if (const auto throttled_us = growth(begin.throttled_us, end.throttled_us)) {
    conditions.throttled_s = static_cast<double>(*throttled_us) * 1e-6;
  }
  const auto count = static_cast<double>(std::max<std::uint64_t>(cpu_count, 1));
  if (conditions.wall_s > 0) {
    if (const auto busy_s = growth(begin.busy_cpu_s, end.busy_cpu_s)) {
      const double own_s = end.own_cpu_s - begin.own_cpu_s;
      conditions.other_cpu_count = std::max(0.0, *busy_s - own_s) / conditions.wall_s;
    }
    if (const auto steal_s = growth(begin.steal_cpu_s, end.steal_cpu_s)) {
      conditions.steal_share = *steal_s / (conditions.wall_s * count);
    }
  }
  if (begin.host_reference_ns.value_or(0) > 0 && end.host_reference_ns.value_or(0) > 0) {
    conditions.host_slowdown = *end.host_reference_ns / *begin.host_reference_ns;
  }
  conditions.warnings = disturbances(conditions, cpu_count);
  return conditions;
}

std::vector<std::string> disturbances(const Conditions& conditions, std::uint64_t cpus) {
  const auto cpu_count = static_cast<double>(std::max<std::uint64_t>(cpus, 1));
  std::vector<std::string> found;
  const auto warn = [&](std::string text) { found.push_back(std::move(text)); };
  if (conditions.wall_s < kWallMinS) return found;
  if (conditions.steal_share && *conditions.steal_share > kStealShareMax) {
    warn(fmt::format("the hypervisor took {:.1f} % of the processors' time away during the run",
                     *conditions.steal_share * 100));
  }
  if (conditions.other_cpu_count && *conditions.other_cpu_count > kOtherCpuShareMax * cpu_count) {
    warn(fmt::format("other programs kept {:.1f} of {} processors busy during the run",
                     *conditions.other_cpu_count, cpus));
  }
  if (conditions.throttled_s && *conditions.throttled_s > kThrottledShareMax * conditions.wall_s) {
    warn(fmt::format("the container's CPU limit stopped it for {:.2f} s of the run's {:.1f} s",
                     *conditions.throttled_s, conditions.wall_s));
  }
  if (conditions.thermal_throttle_count.value_or(0) > 0) {
    warn(fmt::format("processors throttled {} times for heat during the run",
                     *conditions.thermal_throttle_count));
  }
  if (conditions.host_slowdown && *conditions.host_slowdown > kHostSlowdownMax) {
    warn(
        fmt::format("host code ran {:.2f} times as long beside the cells as alone: cells slow each "
                    "other (--jobs) or other programs do, and latencies hold it",
                    *conditions.host_slowdown));
  }
  return found;
}

std::string to_json(const Conditions& conditions) {
  OrderedJson json = {
      {"kind", "conditions"}, {"schema_version", kSchemaVersion}, {"wall_s", conditions.wall_s}};
  visit_numbers(conditions, [&](const char* name, const auto& value) {
    json[name] = value ? OrderedJson(*value) : OrderedJson(nullptr);
  });
  json["warnings"] = conditions.warnings;
  return json_text(json, 1) + "\n";
}

Conditions conditions_from_json(const std::string& text, const std::string& where) {
  const JsonSource source{.where = where,
                          .what = "the conditions of the run cannot be read",
                          .wanted = "the conditions.json that 'allocmark run' writes",
                          .next = "delete the file to go on without them"};
  try {
    const nlohmann::json json = parse_json(text, source);
    Conditions conditions{.wall_s = json.value("wall_s", 0.0)};
    visit_numbers(conditions, [&]<typename Number>(const char* name, std::optional<Number>& value) {
      if (!json.contains(name) || json.at(name).is_null()) return;
      if (json.at(name).get<double>() < 0) refuse_json(source, fmt::format("{} below 0", name));
      value = json.at(name).get<Number>();
    });
    json.at("warnings").get_to(conditions.warnings);
    return conditions;
  } catch (const nlohmann::json::exception& error) {
    refuse_json(source, json_reason(error));
  }
}

void store_conditions(const std::string& folder, Conditions conditions) {
  std::vector<std::string> warnings = stored_warnings(folder);
  for (std::string& warning : conditions.warnings) {
    if (std::ranges::count(warnings, warning) == 0) warnings.push_back(std::move(warning));
  }
  conditions.warnings = std::move(warnings);
  write_file(path_of(folder), to_json(conditions));
}

void add_conditions(const std::string& text, const std::string& where, Environment* environment) {
  std::ranges::move(conditions_from_json(text, where).warnings,
                    std::back_inserter(environment->warnings));
}

void add_stored_conditions(const std::string& folder, Environment* environment) {
  std::ranges::move(stored_warnings(folder), std::back_inserter(environment->warnings));
}

}  // namespace allocmark

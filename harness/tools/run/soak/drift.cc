// See drift.h.
#include "harness/tools/run/soak/drift.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>

#include "base/median.h"
#include "results/statistics/slope.h"

namespace allocmark {
namespace {

constexpr double kSecondsPerHour = 3600;
constexpr double kWarmShare = 0.05;  // of a process's windows
constexpr std::size_t kWindowCountMin = 8;
constexpr std::size_t kTenth = 10;

// A change is called one where the slope's interval leaves zero out, or the last tenth lies apart
// from the first, and it is larger than both of these.
struct Limits {
  double share;     // of the first value
  double absolute;  // in the measure's unit
};

struct Measure {
  const char* name;
  MeasureUnit unit;
  Limits limits;
  double (*value)(const SoakWindow& window);
};

double per_pass(std::uint64_t count, const SoakWindow& window) {
  return static_cast<double>(count) /
         static_cast<double>(std::max<std::uint64_t>(1, window.pass_count));
}

// Latencies wander with the host by some percent; memory does not.
constexpr double kPageBytes = 2.0 * 1024 * 1024;
constexpr Limits kTime{.share = 0.1, .absolute = 5};
constexpr Limits kDeviceMemory{.share = 0.001, .absolute = kPageBytes - 1};
constexpr Limits kHostMemory{.share = 0.02, .absolute = kPageBytes};
constexpr Limits kShare{.share = 0, .absolute = 0.01};
constexpr Limits kCount{.share = 0.01, .absolute = 0.01};

constexpr Measure kMeasures[] = {
    {"allocate P50", MeasureUnit::Ns, kTime, [](const SoakWindow& w) { return w.allocate_p50_ns; }},
    {"allocate P99", MeasureUnit::Ns, kTime, [](const SoakWindow& w) { return w.allocate_p99_ns; }},
    {"free P50", MeasureUnit::Ns, kTime, [](const SoakWindow& w) { return w.deallocate_p50_ns; }},
    {"free P99", MeasureUnit::Ns, kTime, [](const SoakWindow& w) { return w.deallocate_p99_ns; }},
    {"held when all is freed", MeasureUnit::Bytes, kDeviceMemory,
     [](const SoakWindow& w) { return static_cast<double>(w.held_bytes); }},
    {"taken from the device", MeasureUnit::Bytes, kDeviceMemory,
     [](const SoakWindow& w) { return static_cast<double>(w.device_bytes); }},
    {"scattered share of it", MeasureUnit::Share, kShare,
     [](const SoakWindow& w) { return w.scattered_share; }},
    {"failed requests a pass", MeasureUnit::PerPass, kCount,
     [](const SoakWindow& w) { return per_pass(w.oom_count, w); }},
    {"device calls a pass", MeasureUnit::PerPass, kCount,
     [](const SoakWindow& w) { return per_pass(w.device_call_count, w); }},
    {"host memory of allocmark", MeasureUnit::Bytes, kHostMemory,
     [](const SoakWindow& w) { return static_cast<double>(w.process_bytes); }},
};

// Without what each process needs to get warm: the first window at least.
std::vector<SoakWindow> warm_windows(const SoakRecord& record) {
  std::vector<SoakWindow> warm;
  for (std::size_t i = 0; i < record.begins.size(); ++i) {
    const std::size_t begin = record.begins[i];
    const std::size_t end =
        i + 1 < record.begins.size() ? record.begins[i + 1] : record.windows.size();
    const auto skipped =
        static_cast<std::size_t>(std::ceil(static_cast<double>(end - begin) * kWarmShare));
    for (std::size_t j = begin + skipped; j < end; ++j) warm.push_back(record.windows[j]);
  }
  return warm;
}

Trend trend_of(const Drift& drift, const Limits& limits, double hours) {
  const double limit = std::max(limits.absolute, limits.share * std::abs(drift.first));
  const double slope_change = drift.per_hour * hours;
  const bool slopes = drift.per_hour_low > 0 || drift.per_hour_high < 0;
  const double end_change = drift.last - drift.first;
  // A fault that begins late moves the last tenth, and not the median slope.
  const double change =
      slopes && std::abs(slope_change) > std::abs(end_change) ? slope_change : end_change;
  if (std::abs(change) <= limit) return Trend::Flat;
  return change > 0 ? Trend::Grows : Trend::Falls;
}

}  // namespace

std::string_view to_string(Trend trend) {
  constexpr std::string_view kNames[] = {"flat", "grows", "falls", "unknown"};
  return kNames[static_cast<std::size_t>(trend)];
}

std::vector<Drift> find_drifts(const SoakRecord& record) {
  const std::vector<SoakWindow> windows = warm_windows(record);
  std::vector<Drift> drifts;
  for (const Measure& measure : kMeasures) {
    Drift drift{.measure = measure.name, .unit = measure.unit};
    std::vector<double> values;
    for (const SoakWindow& window : windows) values.push_back(measure.value(window));
    const std::optional<Slope> slope = estimate_slope(values);
    if (!values.empty()) {
      const std::size_t part = std::max<std::size_t>(1, values.size() / kTenth);
      const std::span<const double> all(values);
      drift.first = median({all.first(part).begin(), all.first(part).end()});
      drift.last = median({all.last(part).begin(), all.last(part).end()});
    }
    if (slope && windows.size() >= kWindowCountMin) {
      const double hours = (windows.back().end_s - windows.front().end_s) / kSecondsPerHour;
      const double per_hour = static_cast<double>(windows.size() - 1) / std::max(hours, 1e-12);
      drift.per_hour = slope->estimate * per_hour;
      drift.per_hour_low = slope->low * per_hour;
      drift.per_hour_high = slope->high * per_hour;
      drift.trend = trend_of(drift, measure.limits, hours);
    }
    drifts.push_back(drift);
  }
  return drifts;
}

}  // namespace allocmark

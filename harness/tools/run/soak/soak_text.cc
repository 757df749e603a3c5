// See soak_text.h.
#include "harness/tools/run/soak/soak_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "base/json_text.h"
#include "harness/core/run/progress.h"
#include "results/columns/text.h"
#include "results/json.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string bytes_text(double bytes) {
  const std::string sign = bytes < 0 ? "-" : "";
  return sign + format_bytes(static_cast<std::uint64_t>(std::llround(std::abs(bytes))));
}

std::string value_text(double value, MeasureUnit unit) {
  switch (unit) {
    case MeasureUnit::Ns:
      return std::abs(value) < 10'000 ? fmt::format("{:.0f} ns", value)
                                      : fmt::format("{:.1f} us", value / 1000);
    case MeasureUnit::Bytes:
      return bytes_text(value);
    case MeasureUnit::Share:
      return fmt::format("{:.1f} %", value * 100);
    case MeasureUnit::PerPass:
      return fmt::format("{:.2f}", value);
  }
  return "";
}

std::uint64_t pass_count(const SoakRecord& record) {
  std::uint64_t count = 0;
  for (const SoakWindow& window : record.windows) count += window.pass_count;
  return count;
}

}  // namespace

std::string soak_state(const SoakRecord& record) {
  if (record.is_whole()) return "whole";
  if (!record.ended) return "its process left no word";
  return fmt::format("{}: {}", to_string(record.end.status), printable(record.end.reason));
}

std::string change_text(const Drift& drift) {
  return value_text(drift.first, drift.unit) + " -> " + value_text(drift.last, drift.unit);
}

bool drifts_up(const SoakReport& report) {
  return std::ranges::any_of(report.drifts,
                             [](const Drift& drift) { return drift.trend == Trend::Grows; });
}

std::string soak_progress(const SoakRecord& record) {
  std::string text = fmt::format("{} of {}, {} passes", format_duration(record.done_s()),
                                 format_duration(record.spec.seconds), pass_count(record));
  if (record.windows.empty()) return text;
  const SoakWindow& last = record.windows.back();
  return text + fmt::format(", allocate P50 {}, held {}",
                            value_text(last.allocate_p50_ns, MeasureUnit::Ns),
                            format_bytes(last.held_bytes));
}

std::string soak_answer(const SoakReport& report) {
  const std::string name = printable(cell_label(report.record.spec.key));
  std::vector<std::string> grown;
  bool known = false;
  for (const Drift& drift : report.drifts) {
    known = known || drift.trend != Trend::Unknown;
    if (drift.trend != Trend::Grows) continue;
    grown.push_back(fmt::format("{} from {} to {}", drift.measure,
                                value_text(drift.first, drift.unit),
                                value_text(drift.last, drift.unit)));
  }
  if (!known) return fmt::format("{}: too short to tell of a drift.", name);
  if (grown.empty()) return fmt::format("{}: nothing grows.", name);
  return fmt::format("{}: {} {}.", name, fmt::join(grown, ", "),
                     grown.size() == 1 ? "grows" : "grow");
}

std::string render_soak(const SoakReport& report) {
  const SoakRecord& record = report.record;
  std::string text =
      fmt::format("{}\n{} of {} soaked in {} windows, {} passes, {} processes; {}\n\n",
                  printable(cell_label(record.spec.key)), format_duration(record.done_s()),
                  format_duration(record.spec.seconds), record.windows.size(), pass_count(record),
                  record.begins.size(), soak_state(record));
  text += fmt::format("{:<24}  {:>9}  {:>9}  {:>9}  {:>19}  {}\n", "", "first", "last", "per hour",
                      "95 % interval", "");
  for (const Drift& drift : report.drifts) {
    const auto value = [&](double number) { return value_text(number, drift.unit); };
    const bool known = drift.trend != Trend::Unknown;
    const std::string interval =
        known ? fmt::format("{} to {}", value(drift.per_hour_low), value(drift.per_hour_high)) : "";
    text +=
        fmt::format("{:<24}  {:>9}  {:>9}  {:>9}  {:>19}  {}\n", drift.measure, value(drift.first),
                    value(drift.last), known ? value(drift.per_hour) : std::string(), interval,
                    to_string(drift.trend));
  }
  for (const std::string& warning : record.end.warnings)
    text += fmt::format("warning: {}\n", printable(warning));
  return text;
}

std::string to_json(const std::vector<SoakReport>& reports) {
  OrderedJson soaks = OrderedJson::array();
  for (const SoakReport& report : reports) {
    const SoakRecord& record = report.record;
    OrderedJson drifts = OrderedJson::array();
    for (const Drift& drift : report.drifts) {
      drifts.push_back({{"measure", drift.measure},
                        {"first", drift.first},
                        {"last", drift.last},
                        {"per_hour", drift.per_hour},
                        {"per_hour_low", drift.per_hour_low},
                        {"per_hour_high", drift.per_hour_high},
                        {"trend", to_string(drift.trend)}});
    }
    soaks.push_back({{"key", parse_ordered_json(to_json_line(record.spec.key))},
                     {"seconds", record.spec.seconds},
                     {"done_s", record.done_s()},
                     {"is_whole", record.is_whole()},
                     {"status", to_string(record.end.status)},
                     {"reason", valid_utf8(record.end.reason)},
                     {"warnings", record.end.warnings},
                     {"process_count", record.begins.size()},
                     {"pass_count", pass_count(record)},
                     {"window_count", record.windows.size()},
                     {"drifts", drifts}});
  }
  return json_text(OrderedJson{{"kind", "soaks"}, {"schema_version", "1.0.0"}, {"soaks", soaks}});
}

}  // namespace allocmark

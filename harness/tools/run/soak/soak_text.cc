// See soak_text.h.
#include "harness/tools/run/soak/soak_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

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

using PairJson = nlohmann::ordered_json;

std::string_view verdict_text(GrowthVerdict verdict) {
  constexpr std::string_view kNames[] = {"same", "worse", "better", "unknown", "not compared"};
  return kNames[static_cast<std::size_t>(verdict)];
}

bool grows_more(const Drift& more, const Drift& less) {
  return more.trend == Trend::Grows &&
         (less.trend != Trend::Grows || more.per_hour_low > less.per_hour_high);
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

std::vector<GrowthVerdict> compare_growth(const SoakPair& pair) {
  std::vector<GrowthVerdict> verdicts;
  for (std::size_t i = 0; i < pair.now.drifts.size(); ++i) {
    const Drift& base = pair.base.drifts.at(i);
    const Drift& now = pair.now.drifts[i];
    const bool is_known = base.trend != Trend::Unknown && now.trend != Trend::Unknown;
    // The sides soak one after the other, and the machine changes meanwhile.
    if (now.unit == MeasureUnit::Ns) {
      verdicts.push_back(GrowthVerdict::NotCompared);
    } else if (!is_known) {
      verdicts.push_back(GrowthVerdict::Unknown);
    } else if (grows_more(now, base)) {
      verdicts.push_back(GrowthVerdict::Worse);
    } else {
      verdicts.push_back(grows_more(base, now) ? GrowthVerdict::Better : GrowthVerdict::Same);
    }
  }
  return verdicts;
}

bool is_worse(const SoakPair& pair) {
  if (pair.base.record.is_whole() && !pair.now.record.is_whole()) return true;
  return std::ranges::count(compare_growth(pair), GrowthVerdict::Worse) > 0;
}

std::string render_soak_pair(const SoakPair& pair) {
  const std::vector<GrowthVerdict> verdicts = compare_growth(pair);
  std::string text = fmt::format("A: {}\nB: {}\n\n{:<13}{:<24}  {:>25}  {:>25}\n",
                                 printable(cell_label(pair.base.record.spec.key)),
                                 printable(cell_label(pair.now.record.spec.key)), "growth", "",
                                 "A: first -> last", "B: first -> last");
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    text += fmt::format("{:<13}{:<24}  {:>25}  {:>25}\n", verdict_text(verdicts[i]),
                        pair.now.drifts[i].measure, change_text(pair.base.drifts[i]),
                        change_text(pair.now.drifts[i]));
  }
  for (const SoakReport* side : {&pair.base, &pair.now}) {
    if (!side->record.is_whole()) {
      text += fmt::format("{} is not whole: {}\n", side == &pair.base ? "A" : "B",
                          soak_state(side->record));
    }
  }
  return text;
}

std::string to_json(const std::vector<SoakPair>& pairs) {
  PairJson list = PairJson::array();
  for (const SoakPair& pair : pairs) {
    PairJson growth = PairJson::array();
    const std::vector<GrowthVerdict> verdicts = compare_growth(pair);
    for (std::size_t i = 0; i < verdicts.size(); ++i) {
      growth.push_back({{"measure", pair.now.drifts[i].measure},
                        {"verdict", verdict_text(verdicts[i])},
                        {"base_per_hour", pair.base.drifts[i].per_hour},
                        {"new_per_hour", pair.now.drifts[i].per_hour}});
    }
    list.push_back({{"growth", growth},
                    {"soaks", parse_ordered_json(to_json(std::vector{pair.base, pair.now}))}});
  }
  return json_text(PairJson{{"kind", "soak_pairs"}, {"schema_version", "1.0.0"}, {"pairs", list}});
}

}  // namespace allocmark

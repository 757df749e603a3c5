// See soak_pair.h.
#include "harness/tools/run/soak/soak_pair.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "harness/core/run/progress.h"
#include "results/columns/text.h"

namespace allocmark {
namespace {

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

// The comparison for other programs: JSON, github-action-benchmark, Bencher.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "results/columns/columns.h"
#include "results/compare/compare_writers.h"
#include "results/json.h"

namespace allocmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string lines_of(const OrderedJson& json) { return json_text(json, 1) + "\n"; }

OrderedJson interval(const std::optional<Estimate>& estimate) {
  if (!estimate) return OrderedJson(nullptr);
  return {{"value", estimate->value}, {"low", estimate->low}, {"high", estimate->high}};
}

OrderedJson number_json(const NumberComparison& number) {
  OrderedJson json = {{"number", number.name.text()},
                      {"verdict", to_string(number.verdict)},
                      {"gated", number.gated},
                      {"safety", number.safety},
                      {"reason", number.reason.text()}};
  if (number.base_text.empty() && number.now_text.empty()) {
    json["base"] = number_or_null(number.base);
    json["new"] = number_or_null(number.now);
  } else {
    json["base"] = number.base_text.text();
    json["new"] = number.now_text.text();
  }
  json["change"] = number_or_null(number.change);
  if (number.rounds_needed) json["rounds_needed"] = *number.rounds_needed;
  if (!number.timed) return json;
  json["change_low"] = number_or_null(number.change_low);
  json["change_high"] = number_or_null(number.change_high);
  json["p_value"] = number_or_null(number.p_value);
  json["p_value_adjusted"] = number_or_null(number.p_value_adjusted);
  json["base_interval"] = interval(number.base_interval);
  json["new_interval"] = interval(number.now_interval);
  return json;
}

OrderedJson key_json(const CellKey& key) {
  OrderedJson json = parse_ordered_json(to_json_line(key));
  json.erase("kind");
  json.erase("schema_version");
  return json;
}

OrderedJson cell_json(const CellComparison& cell) {
  OrderedJson json = key_json(cell.key);
  if (cell.now_key) json["new_cell"] = key_json(*cell.now_key);
  json["verdict"] = to_string(cell.verdict);
  json["reason"] = cell.reason;
  json["flags"] = cell.flags;
  if (!cell.first_difference.empty()) json["first_difference"] = cell.first_difference;
  OrderedJson numbers = OrderedJson::array();
  for (const NumberComparison& number : cell.numbers) numbers.push_back(number_json(number));
  json["numbers"] = std::move(numbers);
  return json;
}

OrderedJson incomplete_json(const IncompleteCell& cell) {
  OrderedJson json = key_json(cell.key);
  json["reason"] = cell.reason;
  return json;
}

// A further member of an object, as lines_of() would lay it out, with one element in memory.
template <typename Element>
void write_list(std::string_view name, const std::vector<Element>& elements,
                OrderedJson (*json_of)(const Element&), const TextSink& sink) {
  sink(fmt::format(",\n \"{}\": [", name));
  bool is_first = true;
  for (const Element& element : elements) {
    std::string text = "\n" + lines_of(json_of(element));
    text.pop_back();
    // Texts have no newlines of their own: JSON escapes them.
    for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
      text.insert(at + 1, "  ");
    }
    sink(is_first ? text : "," + text);
    is_first = false;
  }
  sink(elements.empty() ? "]" : "\n ]");
}

std::string unit_of(const NumberComparison& number) {
  if (number.timed) return "ns";
  return number.name.contains("_bytes") ? "B" : "count";
}

std::string name_of(const CellKey& key, bool with_allocator, bool with_conf) {
  // Bencher takes 1024 characters; the id keeps longer names apart.
  constexpr std::size_t kBytesMax = 1000;
  std::string name = key.workload;
  if (with_allocator) name += "/" + key.allocator;
  if (with_conf) name += "/" + without_folders(conf_or_unset(key));
  name += fmt::format("/{}/{}/seed:{}/{}", key.device, key.capacity, key.seed, key.on_oom);
  if (name.size() > kBytesMax) name = name.substr(0, kBytesMax) + " " + key.id();
  return valid_utf8(name);
}

// Numbers that a service can follow: smaller is better in all of them.
bool is_followed(const NumberComparison& number) {
  return number.now && std::isfinite(*number.now) && !number.name.starts_with("counters.") &&
         number.name != "oom_first.event_index";
}

}  // namespace

std::string without_folders(std::string_view conf) {
  std::string out;
  for (const char letter : conf) {
    const std::size_t begin = out.find_last_of(":,[ =");
    if (letter == '/') {
      out.resize(begin == std::string::npos ? 0 : begin + 1);
    } else {
      out += letter;
    }
  }
  return out;
}

std::string service_name(const CellKey& key) { return name_of(key, true, true); }

std::string service_name(const CellComparison& cell) {
  if (!cell.now_key) return service_name(cell.key);
  return name_of(cell.key, cell.key.allocator == cell.now_key->allocator,
                 cell.key.conf == cell.now_key->conf);
}

void write_comparison_json(const Comparison& comparison, const TextSink& sink) {
  OrderedJson counts = OrderedJson::object();
  for (std::size_t verdict = 0; verdict < kVerdictCount; ++verdict) {
    counts[std::string(to_string(static_cast<Verdict>(verdict)))] =
        comparison.verdict_counts[verdict];
  }
  std::string head =
      lines_of({{"kind", "comparison"},
                {"schema_version", kSchemaVersion},
                {"passed", comparison.failures.empty()},
                {"exit_code", static_cast<int>(comparison.exit_code)},
                {"failures", comparison.failures},
                {"notes", comparison.notes},
                {"calibrated", comparison.calibrated},
                {"interleaved", comparison.interleaved},
                {"base", parse_ordered_json(to_json_line(comparison.base_environment))},
                {"new", parse_ordered_json(to_json_line(comparison.now_environment))},
                {"verdict_counts", counts},
                {"skipped_count", comparison.skipped_count}});
  head.resize(head.rfind('\n', head.size() - 2));
  sink(head);
  write_list("cells", comparison.cells, cell_json, sink);
  write_list("incomplete", comparison.incomplete, incomplete_json, sink);
  sink("\n}\n");
}

std::string render_comparison_json(const Comparison& comparison) {
  std::string text;
  write_comparison_json(comparison, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string render_github_benchmark(const Comparison& comparison) {
  OrderedJson entries = OrderedJson::array();
  for (const CellComparison& cell : comparison.cells) {
    for (const NumberComparison& number : cell.numbers) {
      if (!is_followed(number)) continue;
      OrderedJson entry = {{"name", service_name(cell) + " " + number.name.text()},
                           {"unit", unit_of(number)},
                           {"value", *number.now}};
      if (number.now_interval) {
        // The action reads one number after the sign, so the wider side of the interval.
        const Estimate& estimate = *number.now_interval;
        entry["range"] = fmt::format(
            "± {:.6g}", std::max(estimate.high - *number.now, *number.now - estimate.low));
      }
      entry["extra"] = fmt::format("verdict: {}{}{}", to_string(number.verdict),
                                   number.reason.empty() ? "" : ": ", number.reason.text());
      entries.push_back(std::move(entry));
    }
  }
  return lines_of(entries);
}

std::string render_bencher(const Comparison& comparison) {
  OrderedJson benchmarks = OrderedJson::object();
  for (const CellComparison& cell : comparison.cells) {
    OrderedJson measures = OrderedJson::object();
    for (const NumberComparison& number : cell.numbers) {
      if (!is_followed(number)) continue;
      OrderedJson measure = {{"value", *number.now}};
      if (number.now_interval) {
        measure["lower_value"] = number.now_interval->low;
        measure["upper_value"] = number.now_interval->high;
      }
      measures[number.name.text()] = std::move(measure);
    }
    if (!measures.empty()) benchmarks[service_name(cell)] = std::move(measures);
  }
  return lines_of(benchmarks);
}

}  // namespace allocmark

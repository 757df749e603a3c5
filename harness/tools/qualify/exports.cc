// See exports.h.
#include "harness/tools/qualify/writers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/report_json.h"
#include "results/columns/text.h"

namespace allocmark::qualify {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string dump(const OrderedJson& json, int indent = -1) {
  return json_text(json, indent) + "\n";
}

// A label's value in quotes.
std::string label_value(std::string_view text) {
  std::string result = "\"";
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') result += '\\';
    result += c;
  }
  return result + "\"";
}

// Metrics by name; the format wants all lines of one together.
class Metrics {
 public:
  void add(const std::string& name, const std::string& help, const std::string& labels,
           double value) {
    Metric& metric = metrics_[name];
    metric.help = help;
    metric.lines.push_back(fmt::format("{}{{{}}} {}", name, labels,
                                       std::isfinite(value) ? fmt::format("{}", value) : "NaN"));
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (const auto& [name, metric] : metrics_) {
      text += fmt::format("# HELP {0} {1}\n# TYPE {0} gauge\n{2}\n", name, metric.help,
                          fmt::join(metric.lines, "\n"));
    }
    return text;
  }

 private:
  struct Metric {
    std::string help;
    std::vector<std::string> lines;
  };
  std::map<std::string, Metric> metrics_;
};

std::string gpu_labels(const Report& report, const GpuReport* gpu) {
  std::string labels = "node=" + label_value(report.node.name);
  if (gpu == nullptr) return labels;
  const GpuFacts& facts = gpu->facts;
  return labels + fmt::format(",gpu={},uuid={}", label_value(facts.label),
                              label_value(facts.uuid.empty() ? facts.uuid_hash : facts.uuid));
}

// "latency.p50_ratio" is allocmark_qualify_latency_p50_ratio. There the ending _count belongs to
// histograms, and _bits to a unit.
std::string metric_name(const std::string& threshold) {
  std::string name = "allocmark_qualify_" + threshold;
  std::replace(name.begin(), name.end(), '.', '_');
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {{"_count", "_seen"},
                                                                        {"_bits", "_mask"}};
  for (const auto& [ending, instead] : kEndings) {
    if (name.ends_with(ending)) name.replace(name.size() - ending.size(), ending.size(), instead);
  }
  return name;
}

double verdict_number(Verdict verdict) {
  return static_cast<double>(verdict) - static_cast<double>(Verdict::Pass);
}

// NVSentinel's recommended actions.
constexpr int kNoAction = 0;
constexpr int kContactSupport = 5;

OrderedJson health_event(const Report& report, const PlacedTest& entry) {
  const TestResult& test = *entry.test;
  const bool fatal = test.verdict == Verdict::Fail && !passes_by_itself(test);
  OrderedJson entities = OrderedJson::array();
  if (entry.gpu != nullptr) {
    const GpuFacts& facts = entry.gpu->facts;
    entities.push_back({{"entityType", "GPU"}, {"entityValue", std::to_string(facts.index)}});
    if (!facts.pci_bus_id.empty()) {
      entities.push_back({{"entityType", "PCI"}, {"entityValue", facts.pci_bus_id}});
    }
    if (!facts.uuid.empty()) {
      entities.push_back({{"entityType", "GPU_UUID"}, {"entityValue", facts.uuid}});
    }
  }
  std::vector<std::string> codes;
  for (const Figure& figure : test.figures) {
    const bool beyond = figure.verdict == Verdict::Warn || figure.verdict == Verdict::Fail;
    const bool known = std::ranges::find(codes, figure.threshold) != codes.end();
    if (beyond && !known) codes.push_back(figure.threshold);
  }
  return {{"version", 1},
          {"agent", "allocmark-qualify"},
          {"componentClass", "GPU"},
          {"checkName", test_id(test)},
          {"isFatal", fatal},
          {"isHealthy", test.verdict <= Verdict::Pass},
          {"message", fmt::format("{}{}{}", to_string(test.verdict),
                                  test.reason.empty() ? "" : ": ", test.reason)},
          {"recommendedAction", fatal ? kContactSupport : kNoAction},
          {"errorCode", codes},
          {"entitiesImpacted", entities},
          {"generatedTimestamp", report.finished_utc},
          {"nodeName", report.node.name}};
}

// The words of DCGM.
std::string_view dcgm_status(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kWords = {"Skip", "Pass", "Warn", "Fail"};
  return kWords.at(static_cast<std::size_t>(verdict));
}

OrderedJson dcgm_result(const PlacedTest& entry) {
  OrderedJson result = OrderedJson::object();
  if (entry.gpu != nullptr) {
    result["entity_group"] = "GPU";
    result["entity_id"] = entry.gpu->facts.index;
  }
  result["status"] = dcgm_status(entry.test->verdict);
  const std::string& reason = entry.test->reason;
  if (entry.test->verdict >= Verdict::Warn) {
    result["warnings"] = OrderedJson::array({{{"warning", reason}}});
  } else if (!reason.empty()) {
    result["info"] = OrderedJson::array({reason});
  }
  return result;
}

}  // namespace

std::string render_prometheus(const Report& report) {
  Metrics metrics;
  for (const PlacedTest& entry : all_tests(report)) {
    const std::string labels =
        gpu_labels(report, entry.gpu) + ",test=" + label_value(test_id(*entry.test));
    metrics.add("allocmark_qualify_verdict", "0 PASS, 1 WARN, 2 FAIL, -1 SKIP.", labels,
                verdict_number(entry.test->verdict));
    for (const Figure& figure : entry.test->figures) {
      if (!figure.value || figure.threshold.empty()) continue;
      metrics.add(metric_name(figure.threshold), figure.limit.meaning + ".",
                  labels + ",figure=" + label_value(figure.name), *figure.value);
    }
  }
  const std::string node = gpu_labels(report, nullptr);
  metrics.add("allocmark_qualify_node_verdict", "The worst verdict of the node.", node,
              verdict_number(report.verdict));
  metrics.add("allocmark_qualify_duration_seconds", "How long the qualification took.", node,
              report.wall_s);
  metrics.add("allocmark_qualify_start_time_seconds", "When it began, seconds since 1970.", node,
              static_cast<double>(utc_seconds(report.started_utc).value_or(0)));
  for (const GpuReport& gpu : report.gpus) {
    metrics.add("allocmark_qualify_gpu_info", "Always 1; who the GPU is.",
                gpu_labels(report, &gpu) +
                    fmt::format(",model={},pci_bus_id={},serial={},vbios={},driver={}",
                                label_value(gpu.facts.name), label_value(gpu.facts.pci_bus_id),
                                label_value(gpu.facts.serial), label_value(gpu.facts.vbios),
                                label_value(report.node.driver_version)),
                1);
  }
  return metrics.text();
}

std::string render_nvsentinel(const Report& report) {
  std::string lines;
  for (const PlacedTest& entry : all_tests(report)) lines += dump(health_event(report, entry));
  return lines;
}

std::string render_superbench(const Report& report) {
  constexpr const char* kPrefix = "allocmark-qualify/";
  OrderedJson line{{"node", report.node.name},
                   {std::string(kPrefix) + "return_code", static_cast<int>(report.exit_code)}};
  for (const PlacedTest& entry : all_tests(report)) {
    const std::string rank = entry.gpu == nullptr ? "" : fmt::format(":{}", entry.gpu->facts.index);
    line[fmt::format("{}{}_verdict{}", kPrefix, entry.test->test, rank)] =
        verdict_number(entry.test->verdict);
    for (const Figure& figure : entry.test->figures) {
      if (!figure.value || figure.threshold.empty()) continue;
      // The worst of the figures that have one limit.
      OrderedJson& value = line[kPrefix + figure.threshold + rank];
      const bool worse =
          value.is_null() || (figure.limit.is_min ? *figure.value < value : *figure.value > value);
      if (worse) value = *figure.value;
    }
  }
  return dump(line);
}

std::string render_dcgm(const Report& report) {
  std::map<std::string, std::size_t> places;
  std::vector<Verdict> worst;  // by place
  OrderedJson tests = OrderedJson::array();
  for (const PlacedTest& entry : all_tests(report)) {
    const std::string id = test_id(*entry.test);
    const auto [at, is_new] = places.emplace(id, tests.size());
    const std::size_t place = at->second;
    if (is_new) tests.push_back({{"name", id}, {"results", OrderedJson::array()}});
    if (is_new) worst.push_back(entry.test->verdict);
    worst[place] = std::max(worst[place], entry.test->verdict);
    tests[place]["results"].push_back(dcgm_result(entry));
    tests[place]["test_summary"]["status"] = dcgm_status(worst[place]);
  }
  OrderedJson entities = OrderedJson::array();
  for (const GpuReport& gpu : report.gpus) {
    entities.push_back({{"entity_id", gpu.facts.index},
                        {"device_id", gpu.facts.name},
                        {"serial_num", gpu.facts.serial}});
  }
  const OrderedJson json{
      {"DCGM Diagnostic",
       {{"test_categories", OrderedJson::array({{{"category", "Allocation"}, {"tests", tests}}})}}},
      {"entity_groups", OrderedJson::array({{{"entity_group", "GPU"}, {"entities", entities}}})},
      {"metadata",
       {{"version", "allocmark " + report.version},
        {"Driver Version Detected", report.node.driver_version}}}};
  return dump(json, 1);
}

}  // namespace allocmark::qualify

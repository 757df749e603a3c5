// See writers.h.
#include "harness/qualify/writers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/bytes.h"
#include "results/columns/text.h"

namespace allocmark::qualify {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string value_text(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "not measured";
  if (unit == "bytes" && *value >= 0) {
    return *value < 1 ? "0 B" : format_bytes(static_cast<std::uint64_t>(*value));
  }
  // Large numbers are counts or versions, small ones ratios.
  const std::string number =
      std::abs(*value) >= 1000 ? fmt::format("{:.0f}", *value) : fmt::format("{:.4g}", *value);
  return unit.empty() ? number : number + " " + unit;
}

std::string limit_text(const Limit& limit) {
  const char* const beyond = limit.is_min ? "<" : ">";
  const std::string unit = limit.unit == "bytes" ? limit.unit : "";
  std::string text;
  if (limit.warn) text += fmt::format("WARN {} {}", beyond, value_text(limit.warn, unit));
  if (limit.fail) {
    text +=
        fmt::format("{}FAIL {} {}", text.empty() ? "" : ", ", beyond, value_text(limit.fail, unit));
  }
  return text;
}

// How near a figure comes to its limit: larger is worse.
double badness(const Figure& figure) {
  if (!figure.value) return -HUGE_VAL;
  return figure.limit.is_min ? -*figure.value : *figure.value;
}

// The figures worth a line: the worst of each threshold, and all that are beyond one.
std::vector<const Figure*> worst_figures(const std::vector<Figure>& figures) {
  std::map<std::string, const Figure*> worst;
  for (const Figure& figure : figures) {
    const Figure*& known = worst[figure.threshold];
    if (known == nullptr || badness(figure) > badness(*known)) known = &figure;
  }
  std::vector<const Figure*> chosen;
  for (const Figure& figure : figures) {
    const bool beyond = figure.verdict == Verdict::Warn || figure.verdict == Verdict::Fail;
    if (beyond || figure.threshold.empty() || worst.at(figure.threshold) == &figure) {
      chosen.push_back(&figure);
    }
  }
  return chosen;
}

std::string test_text(const TestResult& test) {
  std::string text =
      fmt::format("  {:<4}  {:<13}  {:>6.1f} s", to_string(test.verdict), test.test, test.wall_s);
  if (!test.reason.empty()) text += "  " + printable(test.reason);
  text += "\n";
  for (const Figure* figure : worst_figures(test.figures)) {
    text +=
        fmt::format("        {}: {}", figure->name, value_text(figure->value, figure->limit.unit));
    if (!figure->threshold.empty()) {
      text += fmt::format(" [{}: {}]", figure->threshold, limit_text(figure->limit));
    }
    if (!figure->note.empty()) text += fmt::format(" {}", printable(figure->note));
    text += "\n";
  }
  return text;
}

OrderedJson number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson();
}

OrderedJson to_json(const Figure& figure) {
  OrderedJson json{{"name", figure.name},
                   {"value", number(figure.value)},
                   {"unit", figure.limit.unit},
                   {"note", figure.note},
                   {"verdict", to_string(figure.verdict)}};
  if (figure.threshold.empty()) return json;
  json["threshold"] = figure.threshold;
  json["direction"] = figure.limit.is_min ? "min" : "max";
  json["warn"] = number(figure.limit.warn);
  json["fail"] = number(figure.limit.fail);
  return json;
}

OrderedJson to_json(const TestResult& test) {
  OrderedJson figures = OrderedJson::array();
  for (const Figure& figure : test.figures) figures.push_back(to_json(figure));
  return {{"test", test.test},     {"gpu", test.gpu},       {"verdict", to_string(test.verdict)},
          {"reason", test.reason}, {"wall_s", test.wall_s}, {"figures", figures}};
}

OrderedJson to_json(const std::vector<TestResult>& tests) {
  OrderedJson list = OrderedJson::array();
  for (const TestResult& test : tests) list.push_back(to_json(test));
  return list;
}

struct Count {
  std::size_t tests = 0, failures = 0, skipped = 0;
};

std::string junit_suite(const std::string& name, const std::vector<TestResult>& tests,
                        Count& total) {
  std::string cases;
  Count count;
  for (const TestResult& test : tests) {
    ++count.tests;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">",
                         xml_text(name), xml_text(test.test), test.wall_s);
    const std::string reason = xml_text(test.reason);
    if (test.verdict == Verdict::Fail) {
      ++count.failures;
      cases += fmt::format("<failure message=\"{0}\">{0}</failure>", reason);
    } else if (test.verdict == Verdict::Skip) {
      ++count.skipped;
      cases += fmt::format("<skipped message=\"{}\"/>", reason);
    }
    cases += fmt::format("<system-out>{}</system-out></testcase>\n", xml_text(test_text(test)));
  }
  total.tests += count.tests;
  total.failures += count.failures;
  total.skipped += count.skipped;
  return fmt::format(
      "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\">\n{}"
      "  </testsuite>\n",
      xml_text(name), count.tests, count.failures, count.skipped, cases);
}

}  // namespace

std::string render_table(const Report& report) {
  std::string text;
  for (const GpuReport& gpu : report.gpus) {
    text += fmt::format("{}: {}, {}: {}\n", gpu.facts.label, gpu.facts.name,
                        format_bytes(gpu.facts.memory_bytes), to_string(gpu.verdict));
    for (const TestResult& test : gpu.tests) text += test_text(test);
  }
  text += "node:\n";
  for (const TestResult& test : report.node_tests) text += test_text(test);
  text += fmt::format("\n{} at level {} in {:.1f} s, thresholds: {}; exit code {}\n",
                      to_string(report.verdict), report.level, report.wall_s,
                      report.thresholds_path, static_cast<int>(report.exit_code));
  return text;
}

std::string render_json_line(const TestResult& result) { return to_json(result).dump() + "\n"; }

std::string render_json(const Report& report) {
  OrderedJson gpus = OrderedJson::array();
  for (const GpuReport& gpu : report.gpus) {
    gpus.push_back({{"gpu", gpu.facts.label},
                    {"name", gpu.facts.name},
                    {"uuid_hash", gpu.facts.uuid_hash},
                    {"memory_bytes", gpu.facts.memory_bytes},
                    {"verdict", to_string(gpu.verdict)},
                    {"tests", to_json(gpu.tests)}});
  }
  return OrderedJson{
             {"kind", "qualification"},
             {"schema_version", "1.0"},
             {"allocmark_version", report.version},
             {"started_utc", report.started_utc},
             {"wall_s", report.wall_s},
             {"level", report.level},
             {"device", report.device},
             {"thresholds_path", report.thresholds_path},
             {"environment",
              report.environment.empty() ? OrderedJson() : OrderedJson::parse(report.environment)},
             {"verdict", to_string(report.verdict)},
             {"exit_code", static_cast<int>(report.exit_code)},
             {"gpus", gpus},
             {"node_tests", to_json(report.node_tests)}}
             .dump(1) +
         "\n";
}

std::string render_junit(const Report& report) {
  Count total;
  std::string suites;
  for (const GpuReport& gpu : report.gpus) {
    suites += junit_suite(gpu.facts.label, gpu.tests, total);
  }
  suites += junit_suite("node", report.node_tests, total);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"allocmark qualify\" tests=\"{}\" failures=\"{}\" errors=\"0\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuites>\n",
      total.tests, total.failures, total.skipped, report.wall_s, suites);
}

}  // namespace allocmark::qualify

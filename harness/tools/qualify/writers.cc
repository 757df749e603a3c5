// See writers.h.
#include "harness/tools/qualify/writers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include "base/bytes.h"
#include "harness/tools/qualify/judge.h"
#include "results/columns/text.h"

namespace allocmark::qualify {
namespace {

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

bool is_only_reported(const Figure& figure) {
  return figure.threshold.empty() && figure.note.find(kOnlyReported) != std::string::npos;
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
    if (is_only_reported(figure)) continue;
    const bool beyond = figure.verdict == Verdict::Warn || figure.verdict == Verdict::Fail;
    if (beyond || figure.threshold.empty() || worst.at(figure.threshold) == &figure) {
      chosen.push_back(&figure);
    }
  }
  return chosen;
}

std::string test_text(const TestResult& test) {
  std::string text = fmt::format("  {:<4}  {:<13}  {:>6.1f} s", to_string(test.verdict),
                                 printable(test.test), test.wall_s);
  if (!test.reason.empty()) text += "  " + printable(test.reason);
  text += "\n";
  for (const Figure* figure : worst_figures(test.figures)) {
    text += fmt::format("        {}: {}", printable(figure->name),
                        value_text(figure->value, figure->limit.unit));
    if (!figure->threshold.empty()) {
      text += fmt::format(" [{}: {}]", printable(figure->threshold), limit_text(figure->limit));
    }
    if (!figure->note.empty()) text += fmt::format(" {}", printable(figure->note));
    text += "\n";
  }
  const auto count = std::ranges::count_if(test.figures, is_only_reported);
  if (count > 0) {
    text += fmt::format("        {} more {} only reported: see --format json\n", count,
                        count == 1 ? "is" : "are");
  }
  return text;
}

// Where to find it: "GPU-1b2c..., PCI 0000:1b:00.0, serial 165...".
std::string identity_text(const GpuFacts& facts) {
  std::string text = facts.uuid.empty() ? "GPU " + facts.uuid_hash : facts.uuid;
  if (!facts.pci_bus_id.empty()) text += ", PCI " + facts.pci_bus_id;
  if (!facts.serial.empty()) text += ", serial " + facts.serial;
  if (!facts.vbios.empty()) text += ", VBIOS " + facts.vbios;
  return printable(text);
}

std::string node_text(const NodeFacts& node) {
  std::string text = "node";
  if (!node.name.empty()) text += " " + node.name;
  if (!node.machine_type.empty()) text += ", " + node.machine_type;
  if (!node.driver_version.empty()) text += ", driver " + node.driver_version;
  return printable(text) + ":\n";
}

struct Count {
  std::size_t tests = 0, failures = 0, skipped = 0;
};

std::string junit_suite(const std::string& name, const std::vector<TestResult>& tests,
                        Verdict fails_from, Count& total) {
  std::string cases;
  Count count;
  for (const TestResult& test : tests) {
    ++count.tests;
    cases += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">",
                         xml_text(name), xml_text(test_id(test)), test.wall_s);
    const std::string reason = xml_text(test.reason);
    if (test.verdict >= fails_from) {
      ++count.failures;
      cases += fmt::format("<failure message=\"{0}\">{0}</failure>", reason);
    } else if (test.verdict != Verdict::Pass) {
      ++count.skipped;
      cases += fmt::format("<skipped message=\"{}{}\"/>",
                           test.verdict == Verdict::Warn ? "WARN: " : "", reason);
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
    text += fmt::format("{}: {}, {}: {}\n  {}\n", printable(gpu.facts.label),
                        printable(gpu.facts.name), format_bytes(gpu.facts.memory_bytes),
                        to_string(gpu.verdict), identity_text(gpu.facts));
    for (const TestResult& test : gpu.tests) text += test_text(test);
  }
  text += node_text(report.node);
  for (const TestResult& test : report.node_tests) text += test_text(test);
  text += fmt::format("\n{} at level {} in {:.1f} s, thresholds: {}; exit code {}\n",
                      to_string(report.verdict), printable(report.level), report.wall_s,
                      printable(report.thresholds_path), static_cast<int>(report.exit_code));
  return text;
}

std::string render_junit(const Report& report, Verdict fails_from) {
  Count total;
  std::string suites;
  for (const GpuReport& gpu : report.gpus) {
    suites += junit_suite(gpu.facts.label, gpu.tests, fails_from, total);
  }
  suites += junit_suite("node", report.node_tests, fails_from, total);
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"allocmark qualify\" tests=\"{}\" failures=\"{}\" errors=\"0\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuites>\n",
      total.tests, total.failures, total.skipped, report.wall_s, suites);
}

std::string render_one_line(const Report& report) {
  const std::vector<PlacedTest> tests = all_tests(report);
  const std::string node = report.node.name.empty() ? "this node" : report.node.name;
  const auto worst = std::ranges::max_element(tests, [](const PlacedTest& a, const PlacedTest& b) {
    return a.test->verdict < b.test->verdict;
  });
  if (worst == tests.end() || worst->test->verdict <= Verdict::Pass) {
    return fmt::format("{}: {} GPUs of {}, level {}, {:.0f} s\n", to_string(report.verdict),
                       report.gpus.size(), printable(node), report.level, report.wall_s);
  }
  const TestResult& test = *worst->test;
  const auto others = std::ranges::count_if(
      tests, [](const PlacedTest& placed) { return placed.test->verdict >= Verdict::Warn; });
  std::string place = printable(node);
  if (worst->gpu != nullptr) {
    const GpuFacts& facts = worst->gpu->facts;
    place += " " + printable(facts.label);
    if (!facts.pci_bus_id.empty()) place += " " + printable(facts.pci_bus_id);
  }
  return fmt::format("{} {} on {}: {}{}\n", to_string(test.verdict), test_id(test), place,
                     printable(test.reason),
                     others > 1 ? fmt::format("; and {} more", others - 1) : "");
}

}  // namespace allocmark::qualify

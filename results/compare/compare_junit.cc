// The comparison as JUnit XML, by the strictest schema in use (Ant's, as published by Windy Road):
// each attribute and element that it asks for is there, in its order.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "results/columns/text.h"
#include "results/compare/compare_writers.h"

namespace allocmark {
namespace {

std::string describe(const CellComparison& cell) {
  std::string text = cell.reason;
  for (const NumberComparison& number : cell.numbers) {
    if (number.verdict == Verdict::Same) continue;
    const auto value = [](const std::optional<double>& known_value, const std::string& fallback) {
      return known_value ? fmt::format("{:.6g}", *known_value) : fallback;
    };
    text += fmt::format("{}{}: {}: {} -> {}{}{}{}", text.empty() ? "" : "\n",
                        to_string(number.verdict), number.name.text(),
                        value(number.base, number.base_text), value(number.now, number.now_text),
                        number.change ? fmt::format(" ({:+.2f} %)", *number.change * 100) : "",
                        number.reason.empty() ? "" : ": ", number.reason.text());
  }
  return text;
}

// The suite while its cases are added.
struct JunitSuite {
  std::string cases = {};
  std::size_t test_count = 0, failure_count = 0, error_count = 0, skipped_count = 0;
  double time_s = 0;

  // `element` is failure, error, skipped, or empty where the case passes.
  // `message` is one line, `text` has everything.
  void add(std::string_view class_name, std::string_view name, double case_time_s,
           std::string_view element, std::string_view type, std::string_view message,
           std::string_view text) {
    ++test_count;
    failure_count += element == "failure" ? 1 : 0;
    error_count += element == "error" ? 1 : 0;
    skipped_count += element == "skipped" ? 1 : 0;
    time_s += case_time_s;
    cases += fmt::format("  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\">",
                         xml_text(class_name), xml_text(name), case_time_s);
    if (!element.empty()) {
      // The schema knows no type of a skipped case.
      const std::string kind =
          element == "skipped" ? "" : fmt::format(" type=\"{}\"", xml_text(type));
      cases += fmt::format("<{0} message=\"{1}\"{2}>{3}</{0}>", element, xml_text(message), kind,
                           xml_text(text));
    }
    cases += "</testcase>\n";
  }
};

// Whether it can fail the comparison by itself.
bool is_regression(const CellComparison& cell) {
  if (cell.numbers.empty()) return cell.gated && cell.verdict == Verdict::Worse;
  return std::any_of(cell.numbers.begin(), cell.numbers.end(), [](const NumberComparison& number) {
    return number.gated && number.verdict == Verdict::Worse;
  });
}

void add_cell(const CellComparison& cell, JunitSuite& suite) {
  std::string_view element = "";
  if (is_regression(cell)) {
    element = "failure";
  } else if (cell.verdict == Verdict::NotComparable) {
    element = "error";
  } else if (cell.verdict == Verdict::Undecided) {
    element = "skipped";
  }
  suite.add(cell.key.workload, service_name(cell), cell.now_wall_s, element,
            to_string(cell.verdict), finding_text(cell), describe(cell));
}

std::string property(std::string_view name, std::string_view value) {
  return fmt::format("    <property name=\"{}\" value=\"{}\"/>\n", xml_text(name), xml_text(value));
}

// The schema wants a time without its zone.
std::string timestamp_of(const Environment& environment) {
  const std::string& text = environment.started_utc;
  return text.size() >= 19 ? text.substr(0, 19) : "1970-01-01T00:00:00";
}

}  // namespace

std::string render_comparison_junit(const Comparison& comparison) {
  JunitSuite suite;
  for (const CellComparison& cell : comparison.cells) add_cell(cell, suite);
  for (const IncompleteCell& cell : comparison.incomplete) {
    suite.add(cell.key.workload, service_name(cell.key), 0, "error", "no result",
              "no result: " + cell.reason, cell.reason);
  }
  // The whole may fail where no cell does: by policy, or because there was nothing to compare.
  std::string reasons;
  for (const std::string& failure : comparison.failures) reasons += failure + "\n";
  suite.add("allocmark", "comparison", 0, reasons.empty() ? "" : "failure", "failed",
            comparison.failures.empty() ? "" : comparison.failures.front(), reasons);
  std::string notes;
  for (const std::string& note : comparison.notes) notes += note + "\n";
  const Environment& environment = comparison.now_environment;
  const std::string& host = environment.hostname_hash;
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"allocmark compare\" "
      "timestamp=\"{}\" hostname=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" time=\"{:.3f}\">\n  <properties>\n{}{}{}{}  </properties>\n{}  "
      "<system-out>{}</system-out>\n  <system-err></system-err>\n</testsuite>\n",
      timestamp_of(environment), xml_text(host.empty() ? "localhost" : host), suite.test_count,
      suite.failure_count, suite.error_count, suite.skipped_count, suite.time_s,
      property("allocmark_version", environment.allocmark_version),
      property("git_sha", environment.git_sha), property("device", environment.device),
      property("base_git_sha", comparison.base_environment.git_sha), suite.cases, xml_text(notes));
}

}  // namespace allocmark

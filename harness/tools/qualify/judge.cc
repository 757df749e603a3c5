// See judge.h.
#include "harness/tools/qualify/judge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include "base/assert.h"
#include "base/bytes.h"
#include "base/median.h"
#include "harness/tools/qualify/test.h"

namespace allocmark::qualify {
namespace {

Verdict verdict_of(double value, const Limit& limit) {
  const auto beyond = [&](const std::optional<double>& bound) {
    if (!bound) return false;
    // Written so that a value that is no number is beyond every bound.
    return limit.is_min ? !(value >= *bound) : !(value <= *bound);
  };
  if (beyond(limit.fail)) return Verdict::Fail;
  return beyond(limit.warn) ? Verdict::Warn : Verdict::Pass;
}

void judge_figure(Figure& figure, const Thresholds& thresholds) {
  if (figure.threshold.empty()) {
    figure.verdict = figure.value ? Verdict::Pass : Verdict::Skip;
    return;
  }
  const auto found = thresholds.find(figure.threshold);
  ALLOCMARK_ASSERT(found != thresholds.end());
  figure.limit = found->second;
  figure.verdict = figure.value ? verdict_of(*figure.value, figure.limit) : Verdict::Skip;
}

// "640 MiB" of bytes; of others the number, with its unit where that is wanted.
std::string amount(double value, const std::string& unit, bool with_unit) {
  if (unit == "bytes" && value >= 0) return format_bytes(static_cast<std::uint64_t>(value));
  return fmt::format("{:.6g}{}", value, with_unit ? " " + unit : "");
}

std::string figure_reason(const Figure& figure) {
  if (!figure.value) return fmt::format("{}: {}", figure.name, figure.note);
  const std::optional<double> bound =
      figure.verdict == Verdict::Fail ? figure.limit.fail : figure.limit.warn;
  const std::string& unit = figure.limit.unit;
  return fmt::format("{}: {}, wanted {} {} ({})", figure.name, amount(*figure.value, unit, true),
                     figure.limit.is_min ? "at least" : "at most",
                     amount(bound.value_or(0), unit, false), figure.threshold);
}

const Figure* worst_figure(const std::vector<Figure>& figures) {
  const auto worst = std::ranges::max_element(
      figures, [](const Figure& a, const Figure& b) { return a.verdict < b.verdict; });
  return worst == figures.end() ? nullptr : &*worst;
}

const Figure* find_unmeasured(const std::vector<Figure>& figures) {
  const auto found = std::ranges::find_if(
      figures, [](const Figure& figure) { return !figure.value && !figure.optional; });
  return found == figures.end() ? nullptr : &*found;
}

// How slow a GPU's calls are against its baseline: the geometric mean over its calls.
std::optional<double> latency_of(const GpuReport& gpu) {
  double log_sum = 0;
  std::size_t count = 0;
  for (const TestResult& test : gpu.tests) {
    for (const Figure& figure : test.figures) {
      const bool is_median = figure.threshold == "latency.p50_ratio" ||
                             figure.threshold == "latency.p50_beyond_spread";
      if (!is_median || !figure.value || *figure.value <= 0) continue;
      log_sum += std::log(*figure.value);
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return std::exp(log_sum / static_cast<double>(count));
}

std::optional<double> memory_of(const GpuReport& gpu) {
  if (gpu.facts.memory_bytes == 0) return std::nullopt;
  return static_cast<double>(gpu.facts.memory_bytes);
}

// The GPU's value / the median of its siblings'.
std::optional<Figure> against_siblings(const std::vector<GpuReport>& gpus, std::size_t index,
                                       std::optional<double> (*value_of)(const GpuReport&),
                                       Figure figure) {
  const std::optional<double> own = value_of(gpus[index]);
  std::vector<double> others;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const std::optional<double> other = value_of(gpus[i]);
    if (i != index && other && gpus[i].facts.name == gpus[index].facts.name) {
      others.push_back(*other);
    }
  }
  if (!own || others.empty()) return std::nullopt;
  figure.value = *own / median(others);
  return figure;
}

// Preconditions that another try may meet: somebody else's work, its heat, an old driver. All
// others are of the card.
constexpr std::string_view kWaitFor[] = {
    "preconditions.other_processes", "preconditions.foreign_bytes",
    "preconditions.free_share",      "preconditions.throttle_bits",
    "preconditions.celsius",         "preconditions.driver_cuda_version"};

}  // namespace

bool leaves_open(const TestResult& test) {
  if (test.verdict != Verdict::Skip) return false;
  return std::ranges::none_of(
      std::array{kOneGpuOnly, kNoSibling, kNoBaseline, kNoMemoryCells},
      [&](std::string_view beginning) { return test.reason.starts_with(beginning); });
}

bool passes_by_itself(const TestResult& test, Verdict fails_from) {
  if (test.test != kPreconditionsTest) return false;
  return std::ranges::all_of(test.figures, [&](const Figure& figure) {
    return figure.verdict < fails_from || std::find(std::begin(kWaitFor), std::end(kWaitFor),
                                                    figure.threshold) != std::end(kWaitFor);
  });
}

std::string_view to_string(Verdict verdict) {
  constexpr std::array<std::string_view, 4> kNames = {"SKIP", "PASS", "WARN", "FAIL"};
  return kNames.at(static_cast<std::size_t>(verdict));
}

std::string test_id(const TestResult& result) {
  return (result.gpu.empty() ? "node/" : "gpu/") + result.test;
}

TestResult failed(const TestEnd& end, const std::string& reason) {
  return {.test = end.test,
          .gpu = end.gpu,
          .verdict = Verdict::Fail,
          .reason = reason,
          .wall_s = end.wall_s};
}

TestResult skipped(const TestEnd& end, const std::string& reason) {
  TestResult result = failed(end, reason);
  result.verdict = Verdict::Skip;
  return result;
}

TestResult judge(const TestEnd& end, TestAnswer answer, const Thresholds& thresholds) {
  TestResult result = failed(end, answer.failure);
  for (Figure& figure : answer.figures) judge_figure(figure, thresholds);
  result.figures = std::move(answer.figures);
  if (!answer.failure.empty()) return result;
  const Figure* const worst = worst_figure(result.figures);
  result.verdict = worst == nullptr ? Verdict::Skip : worst->verdict;
  const Figure* const unmeasured = find_unmeasured(result.figures);
  if (result.verdict == Verdict::Fail || result.verdict == Verdict::Warn) {
    result.reason = figure_reason(*worst);
  } else if (!answer.skip.empty()) {
    result.verdict = Verdict::Skip;
    result.reason = answer.skip;
  } else if (worst == nullptr) {
    result.reason = "nothing was measured";
  } else if (result.verdict == Verdict::Skip || unmeasured != nullptr) {
    result.reason = "not measured: " + figure_reason(unmeasured == nullptr ? *worst : *unmeasured);
  }
  if (end.test == kPreconditionsTest && result.verdict < Verdict::Warn && !result.reason.empty()) {
    result.verdict = Verdict::Warn;
  }
  return result;
}

std::vector<TestResult> judge_siblings(const std::vector<GpuReport>& gpus,
                                       const Thresholds& thresholds) {
  std::vector<TestResult> results;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    TestAnswer answer;
    for (const auto& figure :
         {against_siblings(gpus, i, latency_of,
                           {.name = "latency", .threshold = "siblings.latency_ratio"}),
          against_siblings(gpus, i, memory_of,
                           {.name = "total memory", .threshold = "siblings.memory_share"})}) {
      if (figure) answer.figures.push_back(*figure);
    }
    if (answer.figures.empty()) answer.skip = kNoSibling;
    results.push_back(
        judge({.test = "siblings", .gpu = gpus[i].facts.label}, std::move(answer), thresholds));
  }
  return results;
}

std::vector<PlacedTest> all_tests(const Report& report) {
  std::vector<PlacedTest> all;
  for (const GpuReport& gpu : report.gpus) {
    for (const TestResult& test : gpu.tests) all.push_back({.gpu = &gpu, .test = &test});
  }
  for (const TestResult& test : report.node_tests) all.push_back({.test = &test});
  return all;
}

void conclude(Report& report, Verdict fails_from) {
  bool waiting_helps = false;
  bool tests_failed = false;
  report.verdict = Verdict::Skip;
  const auto note = [&](const TestResult& test, Verdict& verdict) {
    verdict = std::max(verdict, test.verdict);
    if (test.verdict < fails_from) return;
    (passes_by_itself(test, fails_from) ? waiting_helps : tests_failed) = true;
  };
  for (GpuReport& gpu : report.gpus) {
    gpu.verdict = Verdict::Skip;
    for (const TestResult& test : gpu.tests) note(test, gpu.verdict);
    report.verdict = std::max(report.verdict, gpu.verdict);
  }
  for (const TestResult& test : report.node_tests) note(test, report.verdict);
  if (tests_failed) {
    report.exit_code = ExitCode::Regression;
  } else if (waiting_helps || report.verdict == Verdict::Skip) {
    report.exit_code = ExitCode::NotReady;
  } else {
    report.exit_code = ExitCode::Pass;
  }
}

namespace {

std::string contradiction_of_test(const TestResult& test) {
  const bool has_pass = std::ranges::any_of(
      test.figures, [](const Figure& figure) { return figure.verdict == Verdict::Pass; });
  if (test.verdict == Verdict::Pass && !has_pass)
    return fmt::format("{} is called PASS, and no figure of it is", test_id(test));
  for (const Figure& figure : test.figures) {
    if (!figure.value && figure.verdict != Verdict::Skip) {
      return fmt::format("{}: {} is called {}, and was not measured", test_id(test), figure.name,
                         to_string(figure.verdict));
    }
    if (!figure.threshold.empty() && figure.value) {
      const Verdict made = verdict_of(*figure.value, figure.limit);
      if (figure.verdict < made) {
        return fmt::format("{}: {} is called {}, its limits give {}", test_id(test), figure.name,
                           to_string(figure.verdict), to_string(made));
      }
    }
    if (figure.verdict > test.verdict && figure.verdict >= Verdict::Warn) {
      return fmt::format("{} is called {}, and {} is {}", test_id(test), to_string(test.verdict),
                         figure.name, to_string(figure.verdict));
    }
  }
  return "";
}

// A limit that is not the one that ships, where the report says that those were used.
std::string other_limit(const TestResult& test, const Thresholds& shipped) {
  for (const Figure& figure : test.figures) {
    if (figure.threshold.empty()) continue;
    const auto limit = shipped.find(figure.threshold);
    const bool same = limit != shipped.end() && limit->second.warn == figure.limit.warn &&
                      limit->second.fail == figure.limit.fail &&
                      limit->second.is_min == figure.limit.is_min;
    if (!same) {
      return fmt::format("{}: the limit of {} is not the one that ships", test_id(test),
                         figure.threshold);
    }
  }
  return "";
}

// Of a GPU each test is there once.
std::string missing_test(const GpuReport& gpu) {
  std::vector<std::string_view> wanted{"siblings"};
  for (const TestEntry& entry : registry())
    if (entry.scope != Scope::Node) wanted.push_back(entry.name);
  for (const std::string_view name : wanted) {
    const auto count = std::ranges::count(gpu.tests, name, &TestResult::test);
    if (count != 1) return fmt::format("{}: {} is there {} times", gpu.facts.label, name, count);
  }
  return "";
}

// Thresholds of figures that a test does not always have: those of long levels or of real GPUs, and
// a sibling's where its latency is not known.
constexpr std::string_view kNotAlways[] = {"latency.drift", "integrity.covered_share",
                                           "siblings.latency_ratio"};
// A call is held against one of the two.
constexpr std::array<std::array<std::string_view, 2>, 2> kEither = {{
    {"latency.p50_ratio", "latency.p50_beyond_spread"},
    {"latency.p90_ratio", "latency.p90_beyond_spread"},
}};

bool has_figure(const TestResult& test, std::string_view threshold) {
  const auto is_there = [&](std::string_view key) {
    return std::ranges::find(test.figures, key, &Figure::threshold) != test.figures.end();
  };
  for (const auto& pair : kEither) {
    if (std::ranges::find(pair, threshold) != pair.end())
      return std::ranges::any_of(pair, is_there);
  }
  return is_there(threshold);
}

// A threshold of a test that passed, by which none of its figures is judged. A test has those whose
// keys begin with its name.
std::string missing_figure(const TestResult& test, const Thresholds& shipped) {
  const bool has_passed = test.verdict == Verdict::Pass ||
                          (test.verdict == Verdict::Warn && !test.reason.starts_with(kCutShort));
  if (!has_passed) return "";
  for (const auto& [key, limit] : shipped) {
    const bool is_wanted = key.starts_with(test.test + ".") &&
                           std::ranges::find(kNotAlways, key) == std::end(kNotAlways);
    if (is_wanted && !has_figure(test, key)) {
      return fmt::format("{} is called {}, and no figure of it is held against {}", test_id(test),
                         to_string(test.verdict), key);
    }
  }
  return "";
}

// A test that was skipped for want of another GPU, where there is one.
std::string wrong_skip(const TestResult& test, const Report& report, const GpuReport* gpu) {
  if (test.verdict != Verdict::Skip) return "";
  const auto count =
      gpu == nullptr ? std::ranges::distance(report.gpus)
                     : std::ranges::count_if(report.gpus, [&](const GpuReport& other) {
                         return other.facts.name == gpu->facts.name && other.facts.memory_bytes > 0;
                       });
  if (count < 2 || (test.reason != kOneGpuOnly && test.reason != kNoSibling)) return "";
  return fmt::format("{} is skipped because {}, and there are {}", test_id(test), test.reason,
                     count);
}

// What a report of this version cannot lack.
std::string missing_part(const Report& report) {
  for (const GpuReport& gpu : report.gpus) {
    std::string found = missing_test(gpu);
    if (!found.empty()) return found;
  }
  const Thresholds shipped = default_thresholds();
  const bool has_own_limits = report.thresholds_path != kShippedThresholds;
  for (const PlacedTest& placed : all_tests(report)) {
    for (std::string found :
         {missing_figure(*placed.test, shipped), wrong_skip(*placed.test, report, placed.gpu),
          has_own_limits ? std::string() : other_limit(*placed.test, shipped)}) {
      if (!found.empty()) return found;
    }
  }
  return "";
}

}  // namespace

std::string contradiction_of(const Report& report, std::string_view version) {
  const bool is_fit = report.verdict == Verdict::Pass || report.verdict == Verdict::Warn;
  if (is_fit && report.gpus.empty()) return "no GPU is in it";
  if (is_fit && !version.empty() && report.version == version) {
    std::string found = missing_part(report);
    if (!found.empty()) return found;
  }
  for (const PlacedTest& placed : all_tests(report)) {
    const std::string found = contradiction_of_test(*placed.test);
    if (!found.empty()) return found;
  }
  Report made = report;
  bool exit_code_fits = false;
  for (const Verdict fails_from : {Verdict::Fail, Verdict::Warn}) {  // what --fail-on can be
    conclude(made, fails_from);
    exit_code_fits = exit_code_fits || made.exit_code == report.exit_code;
  }
  for (std::size_t i = 0; i < made.gpus.size(); ++i) {
    if (made.gpus[i].verdict == report.gpus[i].verdict) continue;
    return fmt::format("{} is called {}, its tests give {}", report.gpus[i].facts.label,
                       to_string(report.gpus[i].verdict), to_string(made.gpus[i].verdict));
  }
  if (made.verdict != report.verdict) {
    return fmt::format("the node is called {}, its tests give {}", to_string(report.verdict),
                       to_string(made.verdict));
  }
  return exit_code_fits ? "" : "its exit code is not what its tests give";
}

}  // namespace allocmark::qualify

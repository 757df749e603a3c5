// Goal: figures become the right verdicts, verdicts the right exit code, and what is printed says
// why. Method: answers made by hand; no process, no device.
#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include "base/output_file.h"
#include "harness/tools/qualify/baseline.h"
#include "harness/tools/qualify/child.h"
#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/report_json.h"
#include "harness/tools/qualify/thresholds.h"
#include "harness/tools/qualify/writers.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::qualify {
namespace {

constexpr const char* kLeak = "leaks.growth_bytes";  // at most 0, else FAIL
constexpr const char* kShare = "capacity.share";     // WARN below 0.995, FAIL below 0.95

Figure figure(const char* threshold, std::optional<double> value, const char* note = "") {
  return {.name = "a figure", .threshold = threshold, .value = value, .note = note};
}

TestResult judged(std::vector<Figure> figures, const char* test = "capacity") {
  TestAnswer answer;
  answer.figures = std::move(figures);
  return judge({.test = test, .gpu = "cuda:0"}, answer, default_thresholds());
}

GpuReport gpu(const char* label, std::vector<TestResult> tests, double latency = 0) {
  GpuReport report;
  report.facts = {.label = label, .name = "A GPU", .memory_bytes = 1000};
  report.tests = std::move(tests);
  if (latency > 0)
    report.tests.push_back(judged({figure("latency.p50_ratio", latency)}, "latency"));
  return report;
}

Report concluded(std::vector<GpuReport> gpus) {
  Report report;
  report.gpus = std::move(gpus);
  conclude(report);
  return report;
}

std::string rejection(const char* text) {
  try {
    (void)with_thresholds(default_thresholds(), text, "mine.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a figure is PASS at its limit, and WARN or FAIL beyond it, in both directions") {
  CHECK(judged({figure(kShare, 0.995)}).verdict == Verdict::Pass);
  CHECK(judged({figure(kShare, 0.994)}).verdict == Verdict::Warn);
  CHECK(judged({figure(kShare, 0.95)}).verdict == Verdict::Warn);
  CHECK(judged({figure(kShare, 0.949)}).verdict == Verdict::Fail);
  CHECK(judged({figure(kLeak, 0)}).verdict == Verdict::Pass);
  CHECK(judged({figure(kLeak, 1)}).verdict == Verdict::Fail);
  CHECK(judged({figure(kLeak, std::nan(""))}).verdict == Verdict::Fail);
  CHECK(judged({figure("preconditions.ecc_uncorrected", 1)}).verdict == Verdict::Warn);
}

TEST_CASE("the worst figure decides, and the reason names it with its limit") {
  const TestResult result = judged({figure(kShare, 1), figure(kShare, 0.9), figure(kShare, 0.99)});
  CHECK(result.verdict == Verdict::Fail);
  CHECK(result.reason == "a figure: 0.9 share, wanted at least 0.95 (capacity.share)");
}

TEST_CASE("what could not be measured is SKIP, and a precondition WARN at best") {
  const std::vector<Figure> nothing{figure(kShare, {}, "no permission")};
  CHECK(judged(nothing).verdict == Verdict::Skip);
  CHECK(has(judged(nothing).reason, "no permission"));
  CHECK(judged(nothing, "preconditions").verdict == Verdict::Warn);
  CHECK(judged({}).verdict == Verdict::Skip);
  // Some of them measured: the rest is named.
  const std::vector<Figure> some{figure(kShare, 1), figure(kShare, {}, "no permission")};
  CHECK(judged(some).verdict == Verdict::Pass);
  CHECK(judged(some, "preconditions").verdict == Verdict::Warn);
  // A GPU without ECC lacks nothing.
  Figure optional = figure(kShare, {}, "not supported");
  optional.optional = true;
  CHECK(judged({figure(kShare, 1), optional}, "preconditions").verdict == Verdict::Pass);
}

TEST_CASE("a test that was not carried through is FAIL, whatever it measured before") {
  TestAnswer answer;
  answer.figures = {figure(kShare, 1)};
  answer.failure = "the GPU is gone";
  const TestResult result = judge({.test = "capacity"}, answer, default_thresholds());
  CHECK(result.verdict == Verdict::Fail);
  CHECK(result.reason == "the GPU is gone");
  // A test that says nothing still fails by what it has seen.
  TestAnswer skip;
  skip.skip = "simulated";
  skip.figures = {figure(kLeak, 0)};
  CHECK(judge({.test = "integrity"}, skip, default_thresholds()).verdict == Verdict::Skip);
  skip.figures = {figure(kLeak, 3)};
  CHECK(judge({.test = "integrity"}, skip, default_thresholds()).verdict == Verdict::Fail);
}

TEST_CASE("the exit code tells a failed GPU from a machine that was not fit to be judged") {
  const TestResult pass = judged({figure(kShare, 1)});
  const TestResult warn = judged({figure(kShare, 0.96)});
  const TestResult fail = judged({figure(kShare, 0.5)});
  const TestResult busy = judged({figure("preconditions.other_processes", 1)}, "preconditions");
  const TestResult broken = judged({figure("preconditions.remap_failed", 1)}, "preconditions");
  const TestResult both =
      judged({figure("preconditions.other_processes", 1), figure("preconditions.remap_failed", 1)},
             "preconditions");
  const TestResult skip = skipped({.test = "capacity"}, "not tried");
  CHECK(concluded({gpu("a", {pass, skip})}).verdict == Verdict::Pass);
  CHECK(concluded({gpu("a", {pass})}).exit_code == ExitCode::Pass);
  CHECK(concluded({gpu("a", {pass}), gpu("b", {warn})}).verdict == Verdict::Warn);
  CHECK(concluded({gpu("a", {pass}), gpu("b", {warn})}).exit_code == ExitCode::Pass);
  CHECK(concluded({gpu("a", {pass}), gpu("b", {fail})}).exit_code == ExitCode::Regression);
  CHECK(concluded({gpu("a", {busy, skip})}).verdict == Verdict::Fail);
  // What another try may change is 4; what only another card changes is 1, and it wins.
  CHECK(concluded({gpu("a", {busy, skip})}).exit_code == ExitCode::NotReady);
  CHECK(concluded({gpu("a", {busy, fail})}).exit_code == ExitCode::Regression);
  CHECK(concluded({gpu("a", {busy}), gpu("b", {fail})}).exit_code == ExitCode::Regression);
  CHECK(concluded({gpu("a", {broken, skip})}).exit_code == ExitCode::Regression);
  CHECK(concluded({gpu("a", {both, skip})}).exit_code == ExitCode::Regression);
  CHECK(concluded({gpu("a", {skip})}).exit_code == ExitCode::NotReady);
  CHECK(concluded({}).exit_code == ExitCode::NotReady);
}

TEST_CASE("a GPU that differs from its siblings is found, and only that one") {
  const std::vector<GpuReport> gpus{gpu("a", {}, 1.0), gpu("b", {}, 1.1), gpu("c", {}, 2.0),
                                    gpu("d", {}, 0.9)};
  const std::vector<TestResult> results = judge_siblings(gpus, default_thresholds());
  REQUIRE(results.size() == 4);
  CHECK(results[0].verdict == Verdict::Pass);
  CHECK(results[1].verdict == Verdict::Pass);
  CHECK(results[2].verdict == Verdict::Warn);
  CHECK(results[3].verdict == Verdict::Pass);
  CHECK(results[2].gpu == "c");
  CHECK(*results[2].figures.front().value == Approx(2.0));
  // Another model is no sibling.
  std::vector<GpuReport> mixed{gpu("a", {}, 1.0), gpu("b", {}, 9.0)};
  mixed[1].facts.name = "Another GPU";
  CHECK(judge_siblings(mixed, default_thresholds())[1].verdict == Verdict::Skip);
  std::vector<GpuReport> small{gpu("a", {}, 1.0), gpu("b", {}, 1.0)};
  small[1].facts.memory_bytes = 900;
  CHECK(judge_siblings(small, default_thresholds())[0].verdict == Verdict::Pass);
  CHECK(judge_siblings(small, default_thresholds())[1].verdict == Verdict::Fail);
}

TEST_CASE("a user's thresholds replace those that ship, and nonsense is named") {
  const Thresholds mine = with_thresholds(
      default_thresholds(), R"({"capacity.share": {"min": {"warn": 0.5, "fail": 0.4}}})", "mine");
  CHECK(mine.at(kShare).warn == 0.5);
  CHECK(mine.at(kShare).unit == "share");
  CHECK(mine.at(kLeak).fail == 0);
  TestAnswer answer;
  answer.figures = {figure(kShare, 0.45)};
  CHECK(judge({.test = "capacity"}, answer, mine).verdict == Verdict::Warn);
  CHECK(rejection("{}") == "accepted");
  CHECK(has(rejection("nonsense"), "not JSON"));
  CHECK(has(rejection("[]"), "a JSON object"));
  CHECK(has(rejection(R"({"capacity.shar": {"min": {"fail": 1}}})"), "capacity.share"));
  CHECK(has(rejection(R"({"capacity.share": {"max": {"fail": 1}}})"), "\"min\""));
  CHECK(has(rejection(R"({"capacity.share": {"min": {"fail": "x"}}})"), "a number"));
  CHECK(has(rejection(R"({"capacity.share": {"min": {"fatal": 1}}})"), "warn and fail"));
  CHECK(has(rejection(R"({"capacity.share": {"min": {}}})"), "mine.json, capacity.share"));
  CHECK(
      has(rejection(R"({"capacity.share": {"min": {"warn": 0.1, "fail": 0.9}}})"), "WARN before"));
  CHECK(has(rejection(R"({"capacity.share": 3})"), "capacity.share"));
  CHECK(has(rejection(R"({"capacity.share": {"min": {"fail": 1}, "unit": 3}})"), "texts"));
}

TEST_CASE("the end of a process that gave no answer is the test's failure") {
  const auto reason = [](auto change) {
    ChildOutcome outcome;
    change(outcome);
    return answer_of(outcome, 7).failure;
  };
  CHECK(has(reason([](ChildOutcome& end) { end.timed_out = true; }), "within 7 s"));
  CHECK(has(reason([](ChildOutcome& end) { end.signal_number = 11; }), "SIGSEGV"));
  CHECK(has(reason([](ChildOutcome& end) { end.stderr_tail = "oh no\n"; }), "oh no"));
  CHECK(has(reason([](ChildOutcome& end) { end.exit_code = 0; }), "exit code 0"));
  const auto garbage = [](ChildOutcome& end) {
    end.exit_code = 0;
    end.result = "garbage\n";
  };
  CHECK(has(reason(garbage), "no message of the test"));
}

TEST_CASE("table, JSON and JUnit say what was found, with every threshold beside its figure") {
  Report report =
      concluded({gpu("cuda:0", {judged({figure(kShare, 0.5, "<half> of it")}),
                                skipped({.test = "leaks", .gpu = "cuda:0"}, "not tried")})});
  report.level = "quick";
  const std::string table = render_table(report);
  CHECK(has(table, "cuda:0: A GPU"));
  CHECK(has(table, "[capacity.share: WARN < 0.995, FAIL < 0.95]"));
  CHECK(has(table, "FAIL at level quick"));
  CHECK(has(table, "exit code 1"));
  const nlohmann::json json = nlohmann::json::parse(render_json(report));
  CHECK(json["verdict"] == "FAIL");
  CHECK(json["exit_code"] == 1);
  CHECK(json["gpus"][0]["tests"][0]["figures"][0]["fail"] == 0.95);
  CHECK(json["gpus"][0]["tests"][1]["verdict"] == "SKIP");
  const std::string junit = render_junit(report);
  CHECK(has(junit, "tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\""));
  CHECK(has(junit, "&lt;half&gt;"));
  CHECK(!has(junit, "<half>"));
}

TEST_CASE(
    "the baseline is of the machine with the nearest number of GPUs, of two as near the smaller") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& count) {
    write_file(folder.path(name), R"({"device": {"name": "A GPU", "total_bytes": 7)" + count +
                                      R"(}, "costs": {"cudaFree": [[4, 200, 11, 12, 13, 14]]}})");
  };
  const auto found = [&](int machine_gpu_count) {
    return find_baseline(folder.path(), "A GPU", machine_gpu_count).value().path;
  };
  write("four.json", R"(, "machine_gpu_count": 4)");
  CHECK(found(1) == folder.path("four.json"));
  write("one.json", "");  // as files say that were written before
  write("two.json", R"(, "machine_gpu_count": 2)");
  CHECK(found(1) == folder.path("one.json"));
  CHECK(found(2) == folder.path("two.json"));
  CHECK(found(3) == folder.path("two.json"));
  CHECK(found(8) == folder.path("four.json"));
  write("ten.json", R"(, "machine_gpu_count": 10)");
  CHECK(found(7) == folder.path("four.json"));
  CHECK(found(8) == folder.path("ten.json"));
}

TEST_CASE("an H100 has a baseline of a machine with one GPU and one of a machine with two") {
  const std::string folder = "harness/simcuda/profiles";
  const std::string name = "NVIDIA H100 80GB HBM3";
  CHECK(find_baseline(folder, name, 1).value().path == "h100_alone.json");
  for (const int count : {2, 8}) {
    CHECK(find_baseline(folder, name, count).value().path == folder + "/h100.json");
  }
}

TEST_CASE("a baseline is read with and without lower quantiles and levels, and nonsense is named") {
  const TemporaryFolder folder;
  const auto profile = [&](const std::string& costs) {
    write_file(folder.path("p.json"),
               R"({"device": {"name": "A GPU", "total_bytes": 7}, "costs": )" + costs + "}");
    return folder.path("p.json");
  };
  const Baseline old_form = read_baseline(profile(R"({"cudaFree": [[4, 200, 11, 12, 13, 14]]})"));
  CHECK(old_form.gpu_name == "A GPU");
  CHECK(old_form.memory_bytes == 7);
  CHECK(old_form.rows.at("cudaFree").at(0).p50_ns == 11);
  CHECK(old_form.rows.at("cudaFree").at(0).p90_ns == 12);
  const Baseline levels = read_baseline(profile(
      R"({"cudaFree": {"9": [[4, 20, 5, 6, 7, 8, 9, 10]], "10": [[4, 20, 1, 1, 1, 1, 1, 1]]}})"));
  CHECK(levels.rows.at("cudaFree").at(0).sample_count == 20);
  CHECK(levels.rows.at("cudaFree").at(0).p50_ns == 7);
  CHECK(levels.rows.at("cudaFree").at(0).p90_ns == 8);
  // size, n, min, P10, P50, P90, P99, P99.9, max
  const Baseline today =
      read_baseline(profile(R"({"cudaFree": [[4, 20, 5, 6, 7, 8, 9, 10, 11]]})"));
  CHECK(today.rows.at("cudaFree").at(0).p50_ns == 7);
  CHECK(today.rows.at("cudaFree").at(0).p90_ns == 8);
  CHECK(find_baseline(folder.path(), "A GPU", 1));
  CHECK(!find_baseline(folder.path(), "Another GPU", 1));
  for (const char* bad :
       {"3", R"({"cudaFree": [[1, 2]]})", R"({"cudaFree": [[4, 20, 5, 6, 7, 8, 9]]})",
        R"({"cudaFree": {"x": []}})", R"({"cudaFree": [[-4, 200, 11, 12, 13, 14]]})",
        R"({"cudaFree": [[4, 1e300, 11, 12, 13, 14]]})"}) {
    CHECK_THROWS_AS(read_baseline(profile(bad)), UsageError);
  }
}

TEST_CASE("TESTS.md of the folder has every threshold, with its limits' meaning") {
  const std::string manual = read_file("harness/tools/qualify/TESTS.md");
  for (const auto& [key, limit] : default_thresholds()) {
    INFO(key);
    CHECK(has(manual, ("| `" + key + "` | " + limit.meaning + " |").c_str()));
    CHECK(!limit.meaning.empty());
    CHECK((limit.warn || limit.fail));
  }
}

}  // namespace allocmark::qualify

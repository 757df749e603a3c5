// Goal: policies and calibrations are read whole or refused, and every format holds the verdicts.
// Method: damaged texts, and names that try to leave their place.
#include <string>

#include <nlohmann/json.hpp>

#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "results/compare/side_cells.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/quiet_runs.h"

using namespace allocmark;
using namespace allocmark::quiet;
using nlohmann::json;

TEST_CASE("policies and calibrations are read whole or refused") {
  const ComparePolicy policy = policy_from_json(
      R"({"effect_min":0.1,"effect_min_by_number":{"oom_count":0.5},"confidence":0.99,
          "false_share_max":0.01,"scope":"exact","calibration_required":false,
          "fail_on_changed":true,"fail_on_undecided":true,"fail_on_not_comparable":false,
          "environment_ignored":["kernel"],"report_only":["residue_bytes"]})",
      "p.json");
  CHECK(policy.effect_min_of("allocate_latency_ns_p50", true) == 0.1);
  CHECK(policy.effect_min_of("oom_count", false) == 0.5);
  CHECK(policy.effect_min_of("residue_bytes", false) == 0);
  CHECK(policy.scope == CompareScope::Exact);
  for (const char* bad :
       {"", "[]", "{", R"({"efect_min":0.1})", R"({"effect_min":-1})", R"({"effect_min":"3%"})",
        R"({"confidence":0.2})", R"({"confidence":1})", R"({"scope":"some"})",
        R"({"report_only":"x"})", R"({"report_only":[1]})", R"({"fail_on_changed":1})",
        R"({"effect_min_by_number":{"x":null}})", R"({"effect_min_by_number":[]})"}) {
    INFO(bad);
    CHECK(contains(error_of([&] { (void)policy_from_json(bad, "p.json"); }), "p.json"));
  }
  const std::string text = to_json(quiet_calibration());
  const Calibration read = calibration_from_json(text, "c.json");
  CHECK(to_json(read) == text);
  CHECK(contains(error_of([&] { (void)calibration_from_json("{}", "c.json"); }), "kind"));
  std::string other = text;
  other.replace(other.find(kSchemaVersion), std::string(kSchemaVersion).size(), "2.0.0");
  CHECK(
      contains(error_of([&] { (void)calibration_from_json(other, "c.json"); }), "schema_version"));
}

TEST_CASE("a calibration is of one machine and build, and of enough cells") {
  Calibration foreign = quiet_calibration();
  foreign.hostname_hash = "elsewhere";
  CHECK(contains(error_of([&] {
                   (void)compare_runs(side("BASE", quiet_run()), side("NEW", quiet_run()), {},
                                      foreign);
                 }),
                 "another machine"));
  RunFile other = quiet_run(20);
  other.environment.git_sha = "def456";
  CHECK(contains(error_of([&] {
                   (void)calibrate({side("A", quiet_run(20)), side("B", other)});
                 }),
                 "not of the same build"));
  CHECK(contains(error_of([&] { (void)calibrate({side("A", quiet_run())}); }), "two runs"));
  CHECK(contains(error_of([&] {
                   (void)calibrate({side("A", quiet_run(3)), side("B", quiet_run(3))});
                 }),
                 "too few cells"));
  CHECK(calibrate({side("A", quiet_run(20)), side("B", quiet_run(20))}).bounds.size() == 2);
}

TEST_CASE("sides that have only outlines are compared by their lines, and say the same") {
  RunFile now = quiet_run();
  slow_down(now.cells[0], 1.08);
  now.cells[1].warnings = {"not deterministic: placements"};
  now.cells[2] = sample::not_measured(now.cells[2], CellStatus::Crashed, "signal 11");
  const auto read = [](const char* label, const RunFile& run, CellDetail detail) {
    std::string lines = to_json_line(run.environment) + "\n";
    for (const CellResult& cell : run.cells) lines += to_json_line(cell) + "\n";
    const StoredText text(lines);
    RunSide made = side(label, parse_run_file(text.bytes(), label, detail));
    made.whole = cells_of_text(text, label, made.file.places);
    made.planned = {run.cells[0].key, sample::key()};
    if (detail == CellDetail::Outline) forget_measured(&made);
    return made;
  };
  const auto json_of = [&](CellDetail detail) {
    return render_comparison_json(compare_runs(read("BASE", quiet_run(), detail),
                                               read("NEW", now, detail), {}, quiet_calibration()));
  };
  CHECK(json_of(CellDetail::Outline) == json_of(CellDetail::Whole));
  CHECK(read("BASE", quiet_run(), CellDetail::Outline).planned.size() == 1);
}

TEST_CASE("every format holds the verdicts, and names from outside stay text") {
  const char* hostile = "file:/a<script>alert(1)</script>\"&\x01\x1b[31m.csv";
  const Comparison comparison = compared([&](RunFile& now) {
    for (CellResult& cell : now.cells) slow_down(cell, 1.08);
    now.cells[2] = sample::not_measured(now.cells[2], CellStatus::Crashed, "<b>signal</b>");
  });
  Comparison named = comparison;
  for (CellComparison& cell : named.cells) cell.key.workload = hostile;

  const json all = json::parse(render_comparison_json(named));
  CHECK(all["passed"] == false);
  CHECK(all["exit_code"] == 1);
  CHECK(all["cells"][0]["verdict"] == "worse");
  CHECK(all["cells"][0]["workload"] == hostile);
  CHECK(all["incomplete"].empty());

  const std::string junit = render_comparison_junit(named);
  CHECK(contains(junit, "tests=\"4\" failures=\"4\" errors=\"0\" skipped=\"0\""));
  CHECK(contains(junit, "<failure message=\"worse: allocate P50 +"));
  CHECK(contains(junit, "message=\"worse: result ok -&gt; crashed: NEW: crashed: "));
  CHECK_FALSE(contains(junit, "<script>"));
  CHECK_FALSE(contains(junit, "<b>"));
  CHECK(junit.find('\x01') == std::string::npos);
  CHECK(junit.find('\x1b') == std::string::npos);

  const json github = json::parse(render_github_benchmark(named));
  REQUIRE_FALSE(github.empty());
  for (const json& entry : github) {
    CHECK(entry["value"].is_number());
    CHECK(entry["unit"].is_string());
  }
  const json bencher = json::parse(render_bencher(named));
  REQUIRE(bencher.size() == 1);
  const json measure = bencher.begin().value()["allocate_latency_ns_p50"];
  CHECK(measure["lower_value"] <= measure["value"]);
  CHECK(measure["value"] <= measure["upper_value"]);
  CHECK(text_of(named).find('\x1b') == std::string::npos);
}

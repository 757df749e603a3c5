// Goal: a bundle whose figures do not belong together, or rest on too little, is never called
// publishable. Method: a sound run with other cells, another plan, or a machine that was busy.
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harness/core/run/conditions.h"
#include "harness/tools/bundle/bundle.h"
#include "harness/tools/bundle/bundle_check.h"
#include "results/cell_check.h"
#include "results/compare/compare_writers.h"
#include "tests/catch.h"
#include "tests/harness/bundle/sound_bundle.h"

namespace allocmark {

using namespace sound_bundle;

TEST_CASE("a plan that is not the run's is found") {
  const auto plan_with = [](const std::function<void(RunManifest&)>& change) {
    BundleFiles files = bundle_of(sound_cells());
    RunManifest manifest = manifest_from_json(files["plan.json"].whole(), "plan.json");
    change(manifest);
    files["plan.json"] = to_json(manifest);
    // The comparison rests on the plan, too, and is made again.
    files[kBundleComparison] = render_comparison_json(bundled_verdicts(files));
    return broken(sealed(files));
  };
  CHECK(plan_with([](RunManifest&) {}).empty());
  CHECK(plan_with([](RunManifest& plan) { plan.cells.pop_back(); }) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.pass_count = 30; }) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.pass_count = 2; }) == Names{"plan-kept"});
  // Passes until an interval is narrow: from the plan's number up to its largest.
  const auto until_width = [&](std::uint32_t most) {
    return plan_with([most](RunManifest& plan) {
      plan.width_max = 0.05, plan.pass_count = 2, plan.pass_count_max = most;
    });
  };
  CHECK(until_width(40).empty());
  CHECK(until_width(2) == Names{"plan-kept"});
  CHECK(plan_with([](RunManifest& plan) { plan.cells.push_back(make_cell("x").key); }) ==
        Names{"plan-complete"});
}

TEST_CASE("cells without numbers, other work, too few samples and unfit builds are found") {
  Cells cells = sound_cells();
  CellResult crashed;
  crashed.key = cells[1].key;
  crashed.status = CellStatus::Crashed, crashed.reason = "signal 11";
  cells[1] = crashed;
  CHECK(broken(sealed(bundle_of(cells))) == Names{"plan-complete"});
  cells = sound_cells();
  cells[1].trace_hash = "00000000000000ab";
  CHECK(broken(sealed(bundle_of(cells))) == Names{"work-same"});
  cells = {make_cell("", 1)};
  CHECK(broken(sealed(bundle_of(cells))) == Names{"plan-kept", "samples-enough"});
  cells = sound_cells();
  cells[0].capacity_bytes += 1;
  CHECK(broken(sealed(bundle_of(cells))) == Names{"cells-consistent"});
  Environment environment = make_environment();
  environment.build_type = "Debug";
  CHECK(broken(sealed(bundle_of(sound_cells(), environment))) == Names{"environment-fit"});
  environment = make_environment();
  environment.warnings = {"this is a build with sanitizers; its latencies mean nothing"};
  CHECK(broken(sealed(bundle_of(sound_cells(), environment))) == Names{"environment-fit"});
}

TEST_CASE("the run that a run is compared with must be as sound as it") {
  const auto with = [](Cells cells, const Environment& environment = make_environment()) {
    return broken(sealed(
        bundle_of(Published{.base_cells = std::move(cells), .base_environment = environment})));
  };
  Environment environment = make_environment();
  environment.build_type = "Debug";
  CHECK(with(sound_cells(), environment) == Names{"environment-fit"});
  environment = make_environment();
  environment.warnings = {"this is a build with sanitizers; its latencies mean nothing"};
  CHECK(with(sound_cells(), environment) == Names{"environment-fit"});
  CHECK(with({make_cell("", 1)}) == Names{"plan-kept", "samples-enough"});
  Cells cells = sound_cells();
  cells[1].trace_hash = "00000000000000ab";
  CHECK(with(cells) == Names{"work-same"});
  CellResult crashed;
  crashed.key = cells[1].key;
  crashed.status = CellStatus::Crashed, crashed.reason = "signal 11";
  cells[1] = crashed;
  CHECK(with(cells) == Names{"plan-complete"});
  cells = sound_cells();
  cells[1].key.device = "sim:h100";
  CHECK(with(cells).contains("plan-kept"));
}

TEST_CASE("what is not known of the baseline is said beside the numbers") {
  BundleFiles files = bundle_of(sound_cells());
  files.erase("base.plan.json");
  files[kBundleComparison] = render_comparison_json(bundled_verdicts(files));
  BundleCheck check = check_bundle(sealed(files), kVersion);
  CHECK(check.exit_code == ExitCode::Pass);
  CHECK(render_check(check).find("there is no base.plan.json") != std::string::npos);
  Environment environment = make_environment();
  environment.hostname_hash = "another";
  check = check_bundle(sealed(bundle_of(Published{.base_environment = environment})), kVersion);
  CHECK(check.exit_code == ExitCode::Pass);
  CHECK(render_check(check).find("reservation: baseline: the environment differs: hostname_hash") !=
        std::string::npos);
  files = bundle_of(sound_cells());
  files["base.results.jsonl"] =
      files["base.results.jsonl"].whole().substr(0, files["base.results.jsonl"].size_bytes() - 40);
  CHECK(broken(sealed(files)).contains("results-whole"));
}

TEST_CASE("timelines that were planned must be there, and blocks have been checked") {
  BundleFiles files = bundle_of(sound_cells());
  RunManifest plan = manifest_from_json(files["plan.json"].whole(), "plan.json");
  plan.timelines = true;
  files["plan.json"] = to_json(plan);
  CHECK(broken(sealed(files)) == Names{"files-complete"});
  plan.timelines = false;
  plan.verify = VerifyLevel::Off;
  files["plan.json"] = to_json(plan);
  const BundleCheck check = check_bundle(sealed(files), kVersion);
  CHECK(check.exit_code == ExitCode::Pass);
  CHECK(render_check(check).find("reservation: blocks were not checked") != std::string::npos);
}

TEST_CASE("a run of another version that is not made again the same is not called wrong") {
  Cells cells = sound_cells();
  for (CellResult& cell : cells) cell.key.workload = "comb:size_bytes=2MiB,count=8,ask_bytes=16MiB";
  Environment environment = make_environment();
  CHECK(broken(sealed(bundle_of(cells, environment))) == Names{"traces-regenerated"});
  environment.git_sha = "def";
  const BundleCheck check = check_bundle(sealed(bundle_of(cells, environment)), kVersion);
  CHECK(rules_with(check, RuleOutcome::Broken).empty());
  CHECK(rules_with(check, RuleOutcome::NotChecked) == Names{"traces-regenerated"});
}

TEST_CASE("parts that other numbers are held against cannot be left out") {
  const std::vector<std::function<void(CellResult&)>> edits = {
      [](CellResult& cell) {
        for (PassSummary& pass : cell.passes) pass.allocate_buckets.clear();
      },
      [](CellResult& cell) { cell.passes[1].deallocate_buckets.clear(); },
      [](CellResult& cell) { cell.size_classes.clear(); },
      [](CellResult& cell) {
        cell.deallocate = {};
        for (PassSummary& pass : cell.passes) pass.deallocate_buckets.clear();
      },
      [](CellResult& cell) { cell.repeat = {}; },
      [](CellResult& cell) { cell.step_ns_mean = 100; },
      [](CellResult& cell) { cell.passes[0].step_ns_mean = cell.passes[1].step_ns_mean = 7; },
      [](CellResult& cell) { cell.idle_oom_count = 0; },
      [](CellResult& cell) { cell.wall_s = 1e-3; },
      [](CellResult& cell) { cell.passes[0].begin_s = 2, cell.passes[1].begin_s = 1; },
  };
  for (std::size_t at = 0; at < edits.size(); ++at) {
    Cells cells = sound_cells();
    edits[at](cells[0]);
    INFO("edit " << at);
    CHECK(broken(sealed(bundle_of(cells))) == Names{"cells-consistent"});
  }
  Environment environment = make_environment();
  environment.profile_host_reference_ns = 400;
  Cells cells = sound_cells();
  for (CellResult& cell : cells) {
    for (PassSummary& pass : cell.passes) pass.host_reference_ns = 500;
    cell.host_reference_ns = 500, cell.host_scale = 0.8;
    const LatencySummary& latency = cell.allocate.total;
    cell.scaled = {.allocate_p50_ns = 0.8 * latency.p50_ns,
                   .allocate_p99_ns = 0.8 * latency.p99_ns,
                   .deallocate_p50_ns = 0.8 * latency.p50_ns,
                   .deallocate_p99_ns = 0.8 * latency.p99_ns};
  }
  const auto broken_beside = [&, base = cells](const Cells& own) {
    return broken(sealed(bundle_of(Published{.cells = own,
                                             .environment = environment,
                                             .base_cells = base,
                                             .base_environment = environment})));
  };
  CHECK(broken_beside(cells).empty());
  // Of one cell alone.
  Cells unscaled = cells;
  unscaled[1].scaled = {}, unscaled[1].host_scale = 0;
  CHECK(broken_beside(unscaled) == Names{"cells-consistent"});
  cells[0].host_scale = 0.4;
  CHECK(broken_beside(cells) == Names{"cells-consistent"});
}

TEST_CASE("a busy machine whose passes differed makes a run that cannot be published") {
  // What a run on a machine with other work on it stores.
  const Conditions busy =
      conditions_between({.wall_s = 0, .busy_cpu_s = 0.0}, {.wall_s = 10, .busy_cpu_s = 12.0}, 2);
  const Conditions quiet =
      conditions_between({.wall_s = 0, .busy_cpu_s = 0.0}, {.wall_s = 10, .busy_cpu_s = 1.0}, 2);
  REQUIRE(busy.warnings.size() == 1);
  REQUIRE(quiet.warnings.empty());
  Environment environment = make_environment();
  environment.cpu_count = 2;
  Cells differing = sound_cells();
  differing[1] = make_cell("max_split_size_mb:128", 3, 20'000);
  const auto check = [&](const Cells& cells, const std::string& conditions) {
    BundleFiles files = bundle_of(cells, environment);
    files["conditions.json"] = conditions;
    // What the conditions say stands in the tables as well, and the comparison rests on them.
    const RunFile run = bundled_run(files, "");
    std::map<std::string, std::string> made;
    make_report_files(run.environment, run.cells, cells_in_memory(run.cells),
                      [&](const std::string& name) -> TextSink {
                        return [text = &made[name]](std::string_view piece) { *text += piece; };
                      });
    for (const auto& [name, text] : made) files[name] = text;
    files[kBundleComparison] = render_comparison_json(bundled_verdicts(files));
    return check_bundle(sealed(files), kVersion);
  };
  const auto says = [](const BundleCheck& result, const std::string& text) {
    return render_check(result).find(text) != std::string::npos;
  };
  const BundleCheck broken_one = check(differing, to_json(busy));
  INFO(render_check(broken_one));
  CHECK(rules_with(broken_one, RuleOutcome::Broken) == Names{"machine-quiet"});
  CHECK(broken_one.exit_code == ExitCode::Regression);
  CHECK(says(broken_one, "passes differ in 1 of 2 cells"));
  // Either alone is a reservation.
  const BundleCheck busy_one = check(sound_cells(), to_json(busy));
  CHECK(busy_one.exit_code == ExitCode::Pass);
  CHECK(says(busy_one, "reservation: other programs kept 1.2 of 2 processors busy"));
  CHECK(says(busy_one, "can be published with "));
  const BundleCheck differing_one = check(differing, to_json(quiet));
  CHECK(differing_one.exit_code == ExitCode::Pass);
  CHECK(says(differing_one, "reservation: 1 of 2 cells have passes that differ"));
  const BundleCheck quiet_one = check(sound_cells(), to_json(quiet));
  CHECK(quiet_one.exit_code == ExitCode::Pass);
  CHECK_FALSE(says(quiet_one, "processors busy"));
  // The warning taken out, the numbers left in.
  Conditions silent = busy;
  silent.warnings.clear();
  CHECK(rules_with(check(sound_cells(), to_json(silent)), RuleOutcome::Broken) ==
        Names{"machine-quiet"});
  // Of another version, which may not know that warning.
  environment.allocmark_version = "9.9.8";
  const BundleCheck older = check(sound_cells(), to_json(silent));
  INFO(render_check(older));
  CHECK(rules_with(older, RuleOutcome::Broken).empty());
  CHECK(rules_with(older, RuleOutcome::NotChecked).contains("machine-quiet"));
}

TEST_CASE("passes differ where more than a quarter lie far from their median") {
  CellResult cell = make_cell("");
  CHECK(differing_passes(cell).empty());
  cell.passes[2].allocate_p50_ns *= 1.09;
  CHECK(differing_passes(cell).empty());
  cell.passes[2].allocate_p50_ns *= 1.09;
  REQUIRE(differing_passes(cell).size() == 1);
  CHECK(differing_passes(cell)[0] ==
        "allocate P50: 1 of 3 passes lie more than 10 % from their median");
  cell.passes.push_back(cell.passes[0]);
  CHECK(differing_passes(cell).empty());
}

TEST_CASE(
    "a number that was edited contradicts the others, though everything was made again from it") {
  const std::vector<std::function<void(CellResult&)>> edits = {
      [](CellResult& cell) { cell.allocate.total.p50_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.p99_ns *= 0.95; },
      [](CellResult& cell) { cell.deallocate.total.p999_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.mean_ns *= 0.95; },
      [](CellResult& cell) { cell.allocate.total.max_ns *= 0.9; },
      [](CellResult& cell) { cell.allocate.total.count -= 1; },
      [](CellResult& cell) { cell.passes[1].allocate_p50_ns *= 0.95; },
      [](CellResult& cell) { cell.passes[2].allocate_p99_ns *= 1.05; },
      [](CellResult& cell) { cell.passes[0].allocate_buckets[3].count += 1; },
      [](CellResult& cell) { cell.allocate.host = {.count = 9, .p50_ns = 2, .p90_ns = 1}; },
      [](CellResult& cell) { cell.oom_count = 4; },
      [](CellResult& cell) { cell.oom_cause_counts[1] = 1; },
      [](CellResult& cell) { cell.oom_first = OomEvent{}; },
      [](CellResult& cell) { cell.allocated_bytes_peak = 70 * kMiB; },
      [](CellResult& cell) { cell.reserved_bytes_peak = 20 * kMiB; },
      [](CellResult& cell) { cell.trial_count = 2; },
      [](CellResult& cell) { cell.trial_oom_count = 4; },
      [](CellResult& cell) { cell.allocate_count = 3000; },
      [](CellResult& cell) { cell.passes.pop_back(); },
      [](CellResult& cell) { cell.size_classes[0].allocate.total.count += 1; },
      [](CellResult& cell) { cell.status = CellStatus::OomStopped; },
      [](CellResult& cell) { cell.status = CellStatus::Skipped; },
  };
  CHECK(contradictions(make_cell("")).empty());
  for (std::size_t at = 0; at < edits.size(); ++at) {
    CellResult cell = make_cell("");
    edits[at](cell);
    INFO("edit " << at);
    CHECK(!contradictions(cell).empty());
  }
  Cells cells = sound_cells();
  edits[0](cells[0]);
  CHECK(broken(sealed(bundle_of(cells))) == Names{"cells-consistent"});
}

TEST_CASE("a quantile says how many passes would give it the samples") {
  CellResult cell = make_cell("");
  CHECK(missing_samples(cell).empty());
  cell.allocate.total.count = 300;
  CHECK(missing_samples(cell).empty());
  const std::vector<std::string> marked = marked_quantiles(cell);
  REQUIRE(marked.size() == 1);
  CHECK(marked[0] == "P99 of allocate rests on 300 samples, 1000 are needed (--passes 10)");
  cell.deallocate.total.count = 9;
  const std::vector<std::string> missing = missing_samples(cell);
  REQUIRE(missing.size() == 1);
  CHECK(missing[0] == "P50 of deallocate rests on 9 samples, 20 are needed (--passes 7)");
}

}  // namespace allocmark

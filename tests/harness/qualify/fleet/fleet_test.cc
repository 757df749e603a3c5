// Goal: bad nodes are found among many, healthy ones are not accused, and whatever became of a node
// is a row with a status. Method: reports made by hand, with noise of a fixed seed, in files as
// nodes leave them; no process, no device.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/output_file.h"
#include "base/random.h"
#include "harness/tools/qualify/fleet/fleet.h"
#include "harness/tools/qualify/fleet/outliers.h"
#include "harness/tools/qualify/report_json.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::fleet {
namespace {

using qualify::GpuReport;
using qualify::Report;
using qualify::Verdict;

constexpr std::int64_t kNow = 1795341700;  // 100 s after the reports' start
constexpr int kCallCount = 30;

// Sums of twelve uniform numbers are nearly normal.
double normal(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<double>(random.below(1'000'000)) / 1e6;
  }
  return sum;
}

struct NodeSpec {
  std::string name;
  int gpu_count = 8;
  double noise = 0.03;       // of every figure, on a logarithmic scale
  double slow = 1;           // all calls of the last GPU
  double one_call_slow = 1;  // one call of the first GPU
};

Report report_of(const NodeSpec& spec, Random& random) {
  Report report;
  report.node = {.name = spec.name, .machine_type = "Maker X", .driver_version = "580.1"};
  report.level = "quick";
  report.started_utc = "2026-11-22T10:00:00Z";
  report.finished_utc = "2026-11-22T10:00:30Z";
  report.wall_s = 30;
  report.verdict = Verdict::Pass;
  report.exit_code = ExitCode::Pass;
  for (int gpu_index = 0; gpu_index < spec.gpu_count; ++gpu_index) {
    GpuReport gpu;
    gpu.facts = {.index = gpu_index,
                 .label = fmt::format("cuda:{}", gpu_index),
                 .name = "A GPU",
                 .uuid_hash = fmt::format("{}/{}", spec.name, gpu_index),
                 .memory_bytes = 7};
    gpu.verdict = Verdict::Pass;
    qualify::TestResult test{.test = "latency", .gpu = gpu.facts.label, .verdict = Verdict::Pass};
    for (int call = 0; call < kCallCount; ++call) {
      double ns = 1000.0 * (call + 1) * std::exp(spec.noise * normal(random));
      if (gpu_index + 1 == spec.gpu_count) ns *= spec.slow;
      if (gpu_index == 0 && call == 3) ns *= spec.one_call_slow;
      test.figures.push_back({.name = fmt::format("call {}", call),
                              .value = 1,
                              .measured_ns = ns,
                              .verdict = Verdict::Pass});
    }
    gpu.tests.push_back(test);
    report.gpus.push_back(gpu);
  }
  return report;
}

std::vector<NodeRow> rows_of(const std::vector<NodeSpec>& specs, std::uint64_t seed) {
  Random random(seed);
  std::vector<NodeRow> rows;
  for (const NodeSpec& spec : specs) {
    NodeRow row;
    row.name = spec.name;
    row.path = spec.name;
    row.report = report_of(spec, random);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<NodeSpec> healthy(std::size_t count) {
  std::vector<NodeSpec> specs(count);
  for (std::size_t i = 0; i < count; ++i) specs[i].name = fmt::format("n{:04}", i);
  return specs;
}

std::vector<std::string> names_of(const std::vector<NodeRow>& rows, Action action) {
  std::vector<std::string> names;
  for (const NodeRow& row : rows) {
    if (row.action == action) names.push_back(row.name);
  }
  return names;
}

const NodeRow& row_of(const std::vector<NodeRow>& rows, const std::string& name) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const NodeRow& row) { return row.name == name; });
  REQUIRE(found != rows.end());
  return *found;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The folder nodes/NAME with its qualify.json, whose text `change` may spoil.
template <typename Change>
void leave(const TemporaryFolder& folder, const std::string& place, const NodeSpec& spec,
           Change&& change) {
  Random random(7);
  Report report = report_of(spec, random);
  change(report);
  std::filesystem::create_directories(folder.path(place));
  const std::string path = folder.path(place + "/qualify.json");
  write_file(path, render_json(report));
  // Whatever the date is where the test runs.
  const auto age = std::chrono::system_clock::now().time_since_epoch() - std::chrono::seconds(kNow);
  std::filesystem::last_write_time(
      path, std::filesystem::file_time_type::clock::now() -
                std::chrono::duration_cast<std::filesystem::file_time_type::duration>(age));
}

}  // namespace

TEST_CASE("planted outliers are found among 200 nodes of 8 GPUs, and nothing else") {
  std::vector<NodeSpec> specs = healthy(200);
  specs[17].slow = 1.4;
  specs[60].one_call_slow = 5;
  specs[99].one_call_slow = 2;
  specs[140].slow = 0.5;  // faster is no fault
  std::vector<NodeRow> rows = rows_of(specs, 1);
  const std::vector<Kind> kinds = find_outliers(rows);
  decide(rows);
  REQUIRE(kinds.size() == 1);
  CHECK(kinds[0].gpu_count == 1600);
  CHECK(kinds[0].node_count == 200);
  CHECK(kinds[0].measure_count == kCallCount);
  CHECK(names_of(rows, Action::Drain) == std::vector<std::string>{"n0017", "n0060"});
  CHECK(names_of(rows, Action::Watch) == std::vector<std::string>{"n0099"});
  CHECK(row_of(rows, "n0017").outliers.at(0).gpu == "cuda:7");
  CHECK(has(row_of(rows, "n0017").reason, "mean over all calls is 1.4"));
  CHECK(has(row_of(rows, "n0060").reason, "call 3"));
  CHECK(row_of(rows, "n0060").outliers.at(0).factor == Approx(5).epsilon(0.15));
}

TEST_CASE("of healthy nodes at most one in a hundred is accused, also where figures vary much") {
  for (const double noise : {0.0, 0.01, 0.1, 0.4}) {
    std::vector<NodeSpec> specs = healthy(500);
    for (NodeSpec& spec : specs) {
      spec.noise = noise;
      spec.gpu_count = 2;
    }
    std::vector<NodeRow> rows = rows_of(specs, 3);
    (void)find_outliers(rows);
    decide(rows);
    INFO("noise " << noise);
    CHECK(names_of(rows, Action::Use).size() >= 495);
    CHECK(names_of(rows, Action::Drain).empty());
  }
}

TEST_CASE("a few GPUs, and GPUs of other kinds, are not compared") {
  std::vector<NodeSpec> specs = healthy(2);
  specs[0].gpu_count = specs[1].gpu_count = 2;
  specs[1].slow = 10;
  std::vector<NodeRow> few = rows_of(specs, 5);
  const std::vector<Kind> kinds = find_outliers(few);
  CHECK(!kinds.at(0).is_compared);
  decide(few);
  CHECK(names_of(few, Action::Use).size() == 2);
  // Ten nodes under another driver are all slow: their kind is so.
  std::vector<NodeSpec> many = healthy(20);
  for (std::size_t i = 10; i < 20; ++i) many[i].slow = 3;
  for (NodeSpec& spec : many) spec.gpu_count = 1;
  std::vector<NodeRow> rows = rows_of(many, 6);
  for (std::size_t i = 10; i < 20; ++i) rows[i].report->node.driver_version = "550.1";
  CHECK(find_outliers(rows).size() == 2);
  decide(rows);
  CHECK(names_of(rows, Action::Use).size() == 20);
}

TEST_CASE("a node that calls itself better than its own figures is damaged") {
  const TemporaryFolder folder;
  const auto slow = [](Report& report) {
    report.gpus.at(0).tests.at(0).figures.at(0) = {.name = "call 0",
                                                   .threshold = "latency.p50_ratio",
                                                   .value = 5,
                                                   .limit = {.warn = 1.5, .fail = 3},
                                                   .verdict = Verdict::Fail};
    report.gpus.at(0).tests.at(0).verdict = report.gpus.at(0).verdict = report.verdict =
        Verdict::Fail;
    report.exit_code = ExitCode::Regression;
  };
  const auto call_fit = [](Report& report) {
    report.gpus.at(0).tests.at(0).figures.at(0).verdict = Verdict::Pass;
    report.gpus.at(0).tests.at(0).verdict = report.gpus.at(0).verdict = report.verdict =
        Verdict::Pass;
    report.exit_code = ExitCode::Pass;
  };
  const std::vector<std::pair<std::string, std::function<void(Report&)>>> forgeries = {
      {"figure",
       [](Report& report) { report.gpus.at(0).tests.at(0).figures.at(0).verdict = Verdict::Pass; }},
      {"test", [](Report& report) { report.gpus.at(0).tests.at(0).verdict = Verdict::Pass; }},
      {"gpu", [](Report& report) { report.gpus.at(0).verdict = Verdict::Pass; }},
      {"node", [](Report& report) { report.verdict = Verdict::Pass; }},
      {"exit", [](Report& report) { report.exit_code = ExitCode::Pass; }},
      {"unmeasured",
       [&](Report& report) {
         call_fit(report);
         report.gpus.at(0).tests.at(0).figures.at(0).value.reset();
       }},
      {"emptied",
       [&](Report& report) {
         call_fit(report);
         report.gpus.at(0).tests.at(0).figures.clear();
       }},
      {"gpus",
       [&](Report& report) {
         call_fit(report);
         report.gpus.clear();
       }},
  };
  leave(folder, "nodes/honest", {.name = "honest"}, slow);
  for (const auto& [name, forge] : forgeries) {
    leave(folder, "nodes/" + name, {.name = name}, [&](Report& report) {
      slow(report);
      forge(report);
    });
  }
  std::vector<NodeRow> rows =
      read_nodes({folder.path("nodes")}, {.expected = {}, .within_s = 86400, .now_s = kNow});
  decide(rows);
  CHECK(row_of(rows, "honest").status == NodeStatus::Judged);
  CHECK(row_of(rows, "honest").action == Action::Drain);
  for (const auto& [name, forge] : forgeries) {
    INFO(name);
    CHECK(row_of(rows, name).status == NodeStatus::Damaged);
    CHECK(row_of(rows, name).action == Action::Retry);
  }
}

TEST_CASE("whatever became of a node is a row with a status") {
  const TemporaryFolder folder;
  const auto as_it_is = [](Report&) {};
  for (const NodeSpec& spec : healthy(4)) leave(folder, "nodes/" + spec.name, spec, as_it_is);
  leave(folder, "nodes/short", {.name = "short"}, as_it_is);
  std::filesystem::resize_file(folder.path("nodes/short/qualify.json"), 2000);
  std::filesystem::create_directories(folder.path("nodes/hung"));
  write_file(folder.path("nodes/hung/tests.jsonl"), "{}\n{}\n");
  std::filesystem::create_directories(folder.path("nodes/mute"));
  leave(folder, "nodes/stale", {.name = "stale"}, [](Report& report) {
    report.started_utc = "2026-11-19T10:00:00Z";
    report.finished_utc = "2026-11-19T10:00:30Z";
  });
  leave(folder, "nodes/ahead", {.name = "ahead"}, [](Report& report) {
    report.started_utc = "2026-11-22T12:00:00Z";
    report.finished_utc = "2026-11-22T12:00:30Z";
  });
  leave(folder, "nodes/twin_a", {.name = "twin"}, as_it_is);
  leave(folder, "nodes/twin_b", {.name = "twin"},
        [](Report& report) { report.gpus.at(0).facts.uuid_hash = "another"; });
  leave(folder, "nodes/n0000_before", {.name = "n0000"}, [](Report& report) {
    report.started_utc = "2026-11-22T09:00:00Z";
    report.finished_utc = "2026-11-22T09:00:30Z";
  });
  leave(folder, "nodes/unfit", {.name = "unfit"}, [](Report& report) {
    report.verdict = report.gpus.at(2).verdict = report.gpus.at(2).tests.at(0).verdict =
        Verdict::Fail;
    report.gpus.at(2).tests.at(0).reason = "it broke";
    report.gpus.at(2).facts.serial = "4711";
    report.exit_code = ExitCode::Regression;
  });
  leave(folder, "nodes/busy", {.name = "busy"}, [](Report& report) {
    report.verdict = report.gpus.at(0).verdict = Verdict::Fail;
    report.gpus.at(0).tests.push_back({.test = std::string(qualify::kPreconditionsTest),
                                       .gpu = "cuda:0",
                                       .verdict = Verdict::Fail,
                                       .figures = {{.name = "other processes",
                                                    .threshold = "preconditions.other_processes",
                                                    .value = 1,
                                                    .limit = {.fail = 0},
                                                    .verdict = Verdict::Fail}}});
    report.exit_code = ExitCode::NotReady;
  });
  std::vector<NodeRow> rows = read_nodes(
      {folder.path("nodes")}, {.expected = {"n0001", "silent"}, .within_s = 86400, .now_s = kNow});
  (void)find_outliers(rows);
  decide(rows);
  const auto status = [&](const char* name) { return row_of(rows, name).status; };
  CHECK(status("n0001") == NodeStatus::Judged);
  CHECK(status("short") == NodeStatus::Damaged);
  CHECK(has(row_of(rows, "short").reason, "short/qualify.json"));
  CHECK(status("hung") == NodeStatus::CutShort);
  CHECK(has(row_of(rows, "hung").reason, "after 2 tests"));
  CHECK(status("mute") == NodeStatus::NoAnswer);
  CHECK(status("silent") == NodeStatus::NoAnswer);
  CHECK(status("stale") == NodeStatus::OtherTime);
  CHECK(has(row_of(rows, "stale").reason, "3.0 days older"));
  CHECK(status("ahead") == NodeStatus::Judged);
  CHECK(has(row_of(rows, "ahead").clock, "ahead of this machine's"));
  CHECK(status("twin") == NodeStatus::NameTwice);
  CHECK(has(row_of(rows, "twin").reason, "twin_a"));
  CHECK(has(row_of(rows, "twin").reason, "twin_b"));
  CHECK(names_of(rows, Action::Look) == std::vector<std::string>{"twin", "twin"});
  CHECK(std::count_if(rows.begin(), rows.end(), [](const NodeRow& row) {
          return row.status == NodeStatus::Older && row.name == "n0000";
        }) == 1);
  CHECK(names_of(rows, Action::Drain) == std::vector<std::string>{"unfit"});
  CHECK(has(row_of(rows, "unfit").reason, "gpu/latency cuda:2 serial 4711: it broke"));
  CHECK(names_of(rows, Action::Retry) ==
        std::vector<std::string>{"busy", "hung", "mute", "short", "silent", "stale"});
  const Fleet fleet{.rows = rows, .kinds = {}};
  CHECK(fleet_exit_code(fleet) == ExitCode::Regression);
  CHECK(render_names(fleet, Action::Drain) == "unfit\n");
  const nlohmann::json json = nlohmann::json::parse(render_fleet_json(fleet));
  CHECK(json["nodes"].size() == rows.size());
  CHECK(json["drain"][0]["node"] == "unfit");
  CHECK(has(render_fleet_table(fleet), "15 nodes: 1 drain, 2 look, 6 retry, 1 watch, 5 use"));
}

TEST_CASE("a baseline is what healthy machines take, and needs three of them") {
  std::vector<NodeSpec> specs = healthy(6);
  for (NodeSpec& spec : specs) spec.noise = 0;
  std::vector<NodeRow> rows = rows_of(specs, 9);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (GpuReport& gpu : rows[i].report->gpus) {
      for (qualify::Figure& figure : gpu.tests[0].figures) {
        *figure.measured_ns *= 1 + static_cast<double>(i);
      }
    }
  }
  decide(rows);
  rows[5].action = Action::Drain;
  rows[4].report->node.driver_version = "550.1";
  const std::vector<qualify::Spread> spreads = baseline_of(rows);
  // All machines of the model, and those of one driver; there is one machine of the other.
  REQUIRE(spreads.size() == 2);
  CHECK(spreads[0].machine_type.empty());
  CHECK(spreads[0].machine_count == 5);
  CHECK(spreads[0].rows.at("call 0").slowest_ns == Approx(5000));
  CHECK(spreads[0].rows.at("call 0").median_ns == Approx(3000));
  CHECK(spreads[1].driver_version == "580.1");
  CHECK(spreads[1].rows.at("call 0").slowest_ns == Approx(4000));
  const std::vector<qualify::Spread> back =
      qualify::spreads_from_json(qualify::render_spreads(spreads), "ours.json");
  REQUIRE(back.size() == 2);
  const auto chosen = [&](const char* type, const char* driver) {
    const auto spread =
        choose_spread(back, {.gpu_name = "A GPU", .machine_type = type, .driver_version = driver});
    return spread ? spread->rows.at("call 1").slowest_ns : 0;
  };
  CHECK(chosen("Maker X", "580.1") == Approx(8000));
  CHECK(chosen("Maker X", "550.1") == Approx(10000));
  CHECK(chosen("Maker Y", "580.1") == Approx(10000));
  CHECK(!choose_spread(back, {.gpu_name = "Another GPU"}));
  CHECK(baseline_of({rows[0], rows[1]}).empty());
  CHECK_THROWS_AS(qualify::spreads_from_json("{}", "x.json"), UsageError);
  CHECK_THROWS_AS(qualify::spreads_from_json("no", "x.json"), UsageError);
  CHECK_THROWS_AS(
      qualify::spreads_from_json(R"({"schema_version":"2.0.0","baselines":[]})", "x.json"),
      UsageError);
}

}  // namespace allocmark::fleet

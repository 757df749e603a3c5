// Goal: a qualification that is written is read back as it was, the published schema is what is
// written, and damaged files are refused with the key and the next step. Method: reports made by
// hand; no process, no device.
#include <string>

#include "harness/tools/qualify/judge.h"
#include "harness/tools/qualify/report_json.h"
#include "harness/tools/qualify/writers.h"
#include "tests/catch.h"
#include "tests/harness/qualify/report_schema.h"
#include "tests/support/golden.h"

namespace allocmark::qualify {
namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A node whose second GPU leaks, and warns of heat.
Report sample_report() {
  Report report;
  report.node = {.name = "n1", .machine_type = "Maker \"X\"", .driver_version = "580.1"};
  report.version = "0.1.0";
  report.level = "quick";
  report.device = "all";
  report.started_utc = "2026-11-22T10:00:00Z";
  report.finished_utc = "2026-11-22T10:00:30Z";
  report.environment = R"({"os":"an OS"})";
  report.wall_s = 30;
  for (int i = 0; i < 2; ++i) {
    GpuReport gpu;
    gpu.facts = {.index = i,
                 .label = "cuda:" + std::to_string(i),
                 .name = "A GPU",
                 .uuid = "GPU-" + std::to_string(i),
                 .pci_bus_id = "0000:0" + std::to_string(i) + ":00.0",
                 .serial = "16500",
                 .vbios = "96.00",
                 .uuid_hash = "0123456789abcdef",
                 .memory_bytes = 7};
    TestAnswer answer;
    answer.figures = {{.name = "cudaMalloc", .threshold = "leaks.growth_bytes", .value = i * 8.0},
                      {.name = "not seen", .threshold = "leaks.kept_bytes", .value = {}}};
    gpu.tests.push_back(
        judge({.test = "leaks", .gpu = gpu.facts.label}, answer, default_thresholds()));
    TestAnswer heat;
    heat.figures = {{.name = "temperature",
                     .threshold = "preconditions.celsius",
                     .value = i == 0 ? 20 : 80,
                     .measured_ns = 5}};
    gpu.tests.push_back(
        judge({.test = "preconditions", .gpu = gpu.facts.label}, heat, default_thresholds()));
    report.gpus.push_back(gpu);
  }
  report.node_tests.push_back(skipped({.test = "gpus"}, "not tried"));
  conclude(report);
  return report;
}

std::string rejection(const std::string& text) {
  try {
    (void)report_from_json(text, "n1/qualify.json");
  } catch (const UsageError& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("harness/tools/qualify/schema.json and the tables of TESTS.md are as approved") {
  check_file("harness/tools/qualify/schema.json", report_schema_text());
  const std::string page = read_golden("harness/tools/qualify/TESTS.md");
  check_file("harness/tools/qualify/TESTS.md", with_report_tables(page));
}

TEST_CASE("a report is read back as it was written") {
  const std::string text = render_json(sample_report());
  const Report back = report_from_json(text, "n1");
  CHECK(render_json(back) == text);
  CHECK(back.node.machine_type == "Maker \"X\"");
  CHECK(back.gpus.at(1).facts.serial == "16500");
  CHECK(back.gpus.at(1).verdict == Verdict::Fail);
  CHECK(back.gpus.at(1).tests.at(0).figures.at(0).limit.fail == 0);
  CHECK(back.gpus.at(1).tests.at(1).figures.at(0).measured_ns == 5);
  CHECK(!back.gpus.at(1).tests.at(0).figures.at(1).value);
  CHECK(back.exit_code == ExitCode::Regression);
}

TEST_CASE("a damaged report is refused with its file, its key and what to do") {
  const std::string text = render_json(sample_report());
  CHECK(rejection(text) == "accepted");
  CHECK(has(rejection(text.substr(0, text.size() / 2)), "n1/qualify.json"));
  CHECK(has(rejection(text.substr(0, text.size() / 2)), "qualify that node again"));
  CHECK(has(rejection(""), "a whole JSON object"));
  CHECK(has(rejection("[]"), "kind"));
  CHECK(has(rejection(replaced(text, "\"1.", "\"2.")), "schema_version"));
  CHECK(has(rejection(replaced(text, "\"serial\"", "\"cereal\"")), "gpus[0].serial"));
  CHECK(has(rejection(replaced(text, "\"FAIL\"", "\"fail\"")), "verdict"));
  CHECK(has(rejection(replaced(text, "\"memory_bytes\": 7", "\"memory_bytes\": -7")),
            "gpus[0].memory_bytes"));
  // What a newer program adds is no damage.
  CHECK(rejection(replaced(text, "\"serial\"", "\"new\": 1, \"serial\"")) == "accepted");
}

TEST_CASE("WARN is to be seen in JUnit, and fails where the caller says so") {
  Report report = sample_report();
  report.gpus.at(1).tests.at(0).verdict = Verdict::Pass;
  const std::string junit = render_junit(report);
  CHECK(has(junit, "name=\"gpu/preconditions\""));
  CHECK(has(junit, "<skipped message=\"WARN: temperature: 80"));
  CHECK(has(junit, "failures=\"0\""));
  CHECK(has(render_junit(report, Verdict::Warn), "<failure message=\"temperature: 80"));
}

TEST_CASE("--fail-on warn: the exit code is 1, and 4 for what may pass by itself") {
  Report report = sample_report();
  report.gpus.at(1).tests.erase(report.gpus.at(1).tests.begin());
  conclude(report);
  CHECK(report.exit_code == ExitCode::Pass);
  conclude(report, Verdict::Warn);
  CHECK(report.exit_code == ExitCode::NotReady);  // heat
  report.gpus.at(1).tests.at(0).test = "health";
  conclude(report, Verdict::Warn);
  CHECK(report.exit_code == ExitCode::Regression);
}

TEST_CASE("one line begins with the worst and says where it is, within what readers keep") {
  const std::string line = render_one_line(sample_report());
  CHECK(has(line, "FAIL gpu/leaks on n1 cuda:1 0000:01:00.0: cudaMalloc: 8 B"));
  CHECK(has(line, "and 1 more"));
  CHECK(line.find('\n') == line.size() - 1);
  Report fit = sample_report();
  fit.gpus.pop_back();
  conclude(fit);
  CHECK(render_one_line(fit) == "PASS: 1 GPUs of n1, level quick, 30 s\n");
}

TEST_CASE("other programs' forms name node, GPU and test") {
  const Report report = sample_report();
  const std::string metrics = render_prometheus(report);
  CHECK(has(metrics,
            "allocmark_qualify_verdict{node=\"n1\",gpu=\"cuda:1\",uuid=\"GPU-1\","
            "test=\"gpu/leaks\"} 2\n"));
  CHECK(has(metrics, "allocmark_qualify_start_time_seconds{node=\"n1\"} 1795341600\n"));
  CHECK(!has(metrics, "not seen"));
  const std::string events = render_nvsentinel(report);
  CHECK(has(events, "\"checkName\":\"gpu/leaks\",\"isFatal\":true,\"isHealthy\":false"));
  CHECK(has(events, "\"errorCode\":[\"leaks.growth_bytes\"]"));
  CHECK(has(render_superbench(report), "\"allocmark-qualify/leaks.growth_bytes:1\":8.0"));
  CHECK(has(render_superbench(report), "\"allocmark-qualify/return_code\":1"));
  CHECK(has(render_dcgm(report), "\"name\": \"gpu/leaks\""));
  CHECK(has(render_dcgm(report), "\"status\": \"Fail\""));
}

}  // namespace allocmark::qualify

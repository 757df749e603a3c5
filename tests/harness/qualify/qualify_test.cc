// Goal: 'allocmark qualify' finds what is wrong with a GPU, blames the right test and GPU for it,
// and goes on with the rest. Method: whole runs at the level quick on simulated GPUs, each with one
// planted fault (SIMCUDA_GPU_FAULTS in simcu.h), through the program itself.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include "base/input_file.h"
#include "base/output_file.h"
#include "harness/tools/qualify/call_clock.h"
#include "harness/tools/qualify/conduct.h"
#include "harness/tools/qualify/test.h"
#include "harness/tools/qualify/writers.h"
#include "tests/catch.h"
#include "tests/harness/qualify/planted.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::qualify {
namespace {

Report qualify_gpus(int gpu_count) {
  return conduct(options_for(gpu_count), registry(), [](const TestResult&) {});
}

const TestResult& result_of(const Report& report, const std::string& test, std::size_t gpu = 0) {
  for (const auto* list : {&report.gpus.at(gpu).tests, &report.node_tests}) {
    for (const TestResult& result : *list) {
      if (result.test == test) return result;
    }
  }
  throw std::runtime_error("no result of " + test);
}

// Tests of a GPU that failed or warned.
std::vector<std::string> complaints(const Report& report, std::size_t gpu = 0) {
  std::vector<std::string> names;
  for (const TestResult& result : report.gpus.at(gpu).tests) {
    if (result.verdict >= Verdict::Warn) names.push_back(result.test);
  }
  return names;
}

// A hundred times; rows may stand in lists by level.
void make_slower(nlohmann::json& rows) {
  for (nlohmann::json& row : rows) {
    if (!row.is_array() || row.front().is_array()) {
      make_slower(row);
      continue;
    }
    for (std::size_t i = 2; i < row.size(); ++i) row[i] = row[i].get<std::uint64_t>() * 100;
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("four healthy GPUs pass, and what a simulated one cannot show is skipped with a reason") {
  const Report report = qualify_gpus(4);
  INFO(render_table(report));
  REQUIRE(report.gpus.size() == 4);
  CHECK(report.verdict == Verdict::Pass);
  CHECK(report.exit_code == ExitCode::Pass);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(complaints(report, i).empty());
    CHECK(report.gpus[i].facts.label == "sim:h200/" + std::to_string(i));
    CHECK(result_of(report, "siblings", i).verdict == Verdict::Pass);
    CHECK(result_of(report, "integrity", i).verdict == Verdict::Skip);
    CHECK(has(result_of(report, "integrity", i).reason, "no memory cells"));
  }
  CHECK(result_of(report, "gpus").figures.size() == 4);
  CHECK(result_of(report, "latency").figures.size() > 20);
}

TEST_CASE("a GPU that another program uses is not touched, and never passes") {
  const Plant plant("SIMCUDA_GPU_FAULTS", "1:foreign_bytes=8589934592");
  const Report report = qualify_gpus(2);
  INFO(render_table(report));
  CHECK(report.gpus[0].verdict == Verdict::Pass);
  CHECK(report.gpus[1].verdict == Verdict::Fail);
  CHECK(complaints(report, 1) == std::vector<std::string>{"preconditions"});
  CHECK(has(result_of(report, "preconditions", 1).reason, "other processes: 1"));
  CHECK(result_of(report, "capacity", 1).verdict == Verdict::Skip);
  CHECK(has(result_of(report, "capacity", 1).reason, "other processes: 1"));
  CHECK(report.verdict == Verdict::Fail);
  CHECK(report.exit_code == ExitCode::NotReady);
}

TEST_CASE("a GPU that falls off in the middle fails, and the others go on") {
  const TemporaryFolder folder;
  const Plant plant("SIMCUDA_GPU_FAULTS", "1:lost_at=3000;1:lost_file=" + folder.path() + "/lost");
  const Report report = qualify_gpus(2);
  INFO(render_table(report));
  CHECK(complaints(report, 0).empty());
  CHECK(result_of(report, "preconditions", 1).verdict == Verdict::Pass);
  CHECK(result_of(report, "capacity", 1).verdict == Verdict::Fail);
  CHECK(has(result_of(report, "capacity", 1).reason, "cudaErrorUnknown"));
  CHECK(result_of(report, "leaks", 1).verdict == Verdict::Fail);
  CHECK(has(result_of(report, "health", 1).reason, "GPU is lost"));
  CHECK(has(result_of(report, "gpus").reason, "GPU 1"));
  CHECK(report.exit_code == ExitCode::Regression);
}

TEST_CASE("a call that hangs costs its test's time limit, and two of them the rest of the GPU") {
  const Plant plant("SIMCUDA_GPU_FAULTS", "0:hang_at=100");
  ConductOptions options = options_for(2);
  options.time_limit_s = 5;  // a busy machine takes seconds for what takes none
  const Report report = conduct(options, registry(), [](const TestResult&) {});
  INFO(render_table(report));
  CHECK(has(result_of(report, "capacity", 0).reason, "did not end within 5 s"));
  CHECK(has(result_of(report, "latency", 0).reason, "did not end within 5 s"));
  CHECK(has(result_of(report, "leaks", 0).reason, "not tried: 2 tests"));
  CHECK(complaints(report, 1).empty());
  CHECK(report.exit_code == ExitCode::Regression);
}

TEST_CASE("a call class slower than the model's baseline is named") {
  const TemporaryFolder folder;
  const std::string shipped = std::filesystem::path(ALLOCMARK_PROGRAM).parent_path().string() +
                              "/../lib/simcuda/profiles/h200.json";
  nlohmann::json profile = nlohmann::json::parse(read_file(shipped));
  make_slower(profile["costs"]["cuMemUnmap"]);
  write_file(folder.path() + "/slow.json", profile.dump());
  ConductOptions options = options_for(1);
  options.device = "sim:" + folder.path() + "/slow.json";
  const Report report = conduct(options, registry(), [](const TestResult&) {});
  INFO(render_table(report));
  CHECK(complaints(report) == std::vector<std::string>{"latency"});
  CHECK(has(result_of(report, "latency").reason, "cuMemUnmap"));
  CHECK(report.exit_code == ExitCode::Regression);

  // A model that nobody has measured has no baseline.
  profile["device"]["name"] = "A new GPU";
  write_file(folder.path() + "/slow.json", profile.dump());
  const Report unknown = conduct(options, registry(), [](const TestResult&) {});
  CHECK(result_of(unknown, "latency").verdict == Verdict::Skip);
  CHECK(has(result_of(unknown, "latency").reason, "no baseline for A new GPU"));
}

TEST_CASE("a simulated GPU is held against a machine with as many GPUs as its profile's") {
  const auto latency_of = [](const std::string& device) {
    ConductOptions options = options_for(1);
    options.device = device;
    const Report report = conduct(options, registry(), [](const TestResult&) {});
    INFO(render_table(report));
    CHECK(complaints(report).empty());
    return result_of(report, "latency");
  };
  const auto baseline_of = [](const TestResult& latency) {
    return *std::ranges::find(latency.figures, "GPUs of the baseline's machine", &Figure::name);
  };
  // By this the calls of the other would be up to five times as slow.
  const Figure two = baseline_of(latency_of("sim:h100"));
  CHECK(two.value == 2);
  CHECK(two.note == "h100.json; the simulated GPU's own profile says 2");
  const Figure one = baseline_of(latency_of("sim:harness/tools/qualify/h100_alone.json"));
  CHECK(one.value == 1);
  CHECK(one.note == "h100_alone.json; the simulated GPU's own profile says 1");
  // A machine that nobody measured gets the nearest, and says so.
  const TemporaryFolder folder;
  nlohmann::json eight = nlohmann::json::parse(read_file("harness/simcuda/profiles/h100.json"));
  eight["device"]["machine_gpu_count"] = 8;
  write_file(folder.path("eight.json"), eight.dump());
  const Figure nearest = baseline_of(latency_of("sim:" + folder.path("eight.json")));
  CHECK(nearest.value == 2);
  CHECK(has(nearest.note, "profile says 8, and no nearer baseline is used"));
}

TEST_CASE("a GPU that forgets what was freed is called so where a test runs out of memory") {
  {
    const Plant plant("SIMCUDA_GPU_FAULTS", "0:leak_every=2");
    const Report report = qualify_gpus(2);
    INFO(render_table(report));
    CHECK(complaints(report) == std::vector<std::string>{"latency", "recovery", "leaks"});
    CHECK(result_of(report, "latency").verdict == Verdict::Fail);
    CHECK(
        has(result_of(report, "latency").reason, "the GPU ran out of memory: 139 GiB of 139 GiB"));
    CHECK(has(result_of(report, "latency").reason, "neither free nor in use"));
    CHECK(has(result_of(report, "leaks").reason, "cudaMalloc, growing: 2.03 GiB"));
    CHECK(complaints(report, 1).empty());
    CHECK(report.exit_code == ExitCode::Regression);
  }
  // So small that nothing is left to shrink.
  const Plant small("SIMCUDA_CAPACITY_BYTES", "2147483648");
  const Plant plant("SIMCUDA_GPU_FAULTS", "0:leak_every=1");
  const std::string reason = result_of(qualify_gpus(1), "leaks").reason;
  CHECK(has(reason, "cudaMalloc: memory that was given back is gone: 2.00 GiB free before"));
}

TEST_CASE("a GPU with less memory than its model has is found") {
  const Plant plant("SIMCUDA_CAPACITY_BYTES", "107374182400");
  const Report report = qualify_gpus(1);
  INFO(render_table(report));
  CHECK(complaints(report) == std::vector<std::string>{"capacity"});
  CHECK(has(result_of(report, "capacity").reason, "capacity.total_of_baseline"));
}

TEST_CASE("a time budget ends what it can, names what found no time, and still looks at health") {
  ConductOptions options = options_for(1);
  options.time_budget_s = 1;
  options.time_limit_s = 60;
  const Plant plant("SIMCUDA_GPU_FAULTS", "0:hang_at=100");
  const Report report = conduct(options, registry(), [](const TestResult&) {});
  INFO(render_table(report));
  CHECK(result_of(report, "capacity").verdict == Verdict::Warn);
  CHECK(has(result_of(report, "capacity").reason, "did not end within the time budget of 1 s"));
  CHECK(result_of(report, "leaks").verdict == Verdict::Skip);
  CHECK(has(result_of(report, "leaks").reason, "not tried: the time budget"));
  CHECK(result_of(report, "health").verdict == Verdict::Pass);
}

TEST_CASE("a report says which machine and which GPU it is of, unless it is anonymous") {
  const Plant plant("SIMCUDA_NODE", "n17");
  ConductOptions options = options_for(2);
  options.node_name = "n17";
  const Report report = conduct(options, registry().first(1), [](const TestResult&) {});
  CHECK(report.node.name == "n17");
  CHECK(report.node.driver_version == "580.159.04");
  CHECK(report.gpus.at(1).facts.pci_bus_id == "0000:07:00.0");
  CHECK(has(report.gpus.at(1).facts.uuid, "GPU-73696d63-7564-61"));
  CHECK(has(report.gpus.at(1).facts.serial, "SIM"));
  CHECK(report.gpus.at(0).facts.uuid != report.gpus.at(1).facts.uuid);
  const Plant other_plant("SIMCUDA_NODE", "n18");
  options.is_anonymous = true;
  const Report other = conduct(options, registry().first(1), [](const TestResult&) {});
  CHECK(other.node.name.empty());
  CHECK(other.gpus.at(1).facts.uuid.empty());
  CHECK(other.gpus.at(1).facts.serial.empty());
  CHECK(other.gpus.at(1).facts.pci_bus_id.empty());
  // The other node's GPU is another one, and that can still be told.
  CHECK(other.gpus.at(1).facts.uuid_hash != report.gpus.at(1).facts.uuid_hash);
}

TEST_CASE("calls that get slower while a level repeats are found, and steady ones are not") {
  ConductOptions options = options_for(1);
  options.level = find_level("extra-long");  // of virtual time, of which latency gets 1.2 hours
  const auto entry_of = [](std::string_view name) {
    return *std::find_if(registry().begin(), registry().end(),
                         [&](const TestEntry& entry) { return entry.name == name; });
  };
  const std::array<TestEntry, 2> tests = {entry_of("preconditions"), entry_of("latency")};
  const auto latency_of = [&] {
    return result_of(conduct(options, tests, [](const TestResult&) {}), "latency");
  };
  const TestResult steady = latency_of();
  CHECK(steady.verdict == Verdict::Pass);
  CHECK(std::any_of(steady.figures.begin(), steady.figures.end(), [](const Figure& figure) {
    return figure.threshold == "latency.drift" && *figure.value < 1.1;
  }));
  const Plant plant("SIMCUDA_GPU_FAULTS", "0:slow_percent_per_hour=50");
  const TestResult slower = latency_of();
  CHECK(std::any_of(slower.figures.begin(), slower.figures.end(), [](const Figure& figure) {
    return figure.threshold == "latency.drift" && figure.verdict >= Verdict::Warn;
  }));
}

TEST_CASE("samples take the same memory however many there are, and quantiles stay right") {
  CallSamples samples;
  for (int i = 0; i < 1'000'000; ++i) samples.add(i % 1000);
  CHECK(samples.count() == 1'000'000);
  CHECK(samples.quantile(0.5) == Approx(500).margin(20));
  CHECK(samples.quantile(0.9) == Approx(900).margin(20));
  CallSamples rising;
  for (int i = 0; i < 10'000; ++i) rising.add(100 + i);
  CHECK(*rising.drift() == Approx(8850.0 / 1350.0).epsilon(0.05));
  CHECK(rising.quantile(0.5) == Approx(5100).epsilon(0.02));
  CHECK(*rising.drift() == Approx(8850.0 / 1350.0).epsilon(0.05));  // whatever was asked before
  // Slow for a moment at the end.
  CallSamples steady;
  for (int i = 0; i < 10'000; ++i) steady.add(i < 9'700 ? 100 : 300);
  CHECK(*steady.drift() == 1);
  CallSamples few;
  for (int i = 0; i < 500; ++i) few.add(1);
  CHECK(!few.drift());
  CHECK(few.quantile(0.5) == 1);
}

TEST_CASE("no GPU at all is no verdict") {
  const Plant plant("SIMCUDA_DEVICES", "0");
  ConductOptions options = options_for(0);
  CHECK_THROWS_AS(conduct(options, registry(), [](const TestResult&) {}), EnvironmentError);
}

}  // namespace allocmark::qualify

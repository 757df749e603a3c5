// Goal: 'allocmark qualify' finds what is wrong with a GPU, blames the right test and GPU for it,
// and goes on with the rest. Method: whole runs at the level quick on simulated GPUs, each with one
// planted fault (SIMCUDA_GPU_FAULTS in simcu.h), through the program itself.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include "harness/qualify/conduct.h"
#include "harness/qualify/judge.h"
#include "harness/qualify/test.h"
#include "harness/qualify/writers.h"
#include "harness/run/run_folder.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::qualify {
namespace {

// The variables of the simulated GPUs while it lives.
class Plant {
 public:
  Plant(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Plant() { unsetenv(name_); }
  Plant(const Plant&) = delete;
  Plant& operator=(const Plant&) = delete;

 private:
  const char* name_;
};

ConductOptions options_for(int gpu_count) {
  ConductOptions options;
  options.device = "sim:h200";
  options.simulated_gpu_count = gpu_count;
  options.level = find_level("quick");
  options.thresholds = default_thresholds();
  options.program_path = ALLOCMARK_PROGRAM;
  return options;
}

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

TEST_CASE("every planted fault is found by its test, with its figure in the reason") {
  const TemporaryFolder folder;
  const struct {
    const char *faults, *test;
    Verdict verdict;
    const char* reason;
  } kPlanted[] = {
      {"0:leak_every=7", "leaks", Verdict::Fail, "leaks.growth_bytes"},
      {"0:leak_every=50", "recovery", Verdict::Fail, "recovery."},
      {"0:corrupt_view=6000", "integrity", Verdict::Fail, "integrity.changed_words"},
      {"0:ecc_uncorrected=FILE", "health", Verdict::Fail, "uncorrected ECC errors: 1"},
      {"0:ecc_corrected=FILE", "health", Verdict::Warn, "health.ecc_corrected_growth"},
      {"0:retired_pages=FILE", "health", Verdict::Fail, "health.retired_growth"},
      {"0:xid=79", "health", Verdict::Fail, "health.xid_count"},
      {"0:throttle=64", "preconditions", Verdict::Fail, "preconditions.throttle_bits"},
      {"0:celsius=80", "preconditions", Verdict::Warn, "preconditions.celsius"},
      {"0:ecc_mode=0", "preconditions", Verdict::Fail, "preconditions.ecc_on"},
      {"0:remap_failed=1", "preconditions", Verdict::Fail, "preconditions.remap_failed"},
      {"0:pcie_width=8", "preconditions", Verdict::Warn, "preconditions.pcie_width_share"},
      {"0:power_limit_mw=500000", "preconditions", Verdict::Warn, "preconditions.power_limit"},
      {"0:sm_mhz=900", "health", Verdict::Warn, "health.sm_clock_share"},
      {"0:no_permission=1", "preconditions", Verdict::Warn, "Insufficient Permissions"},
      {"0:nvml_error=9", "preconditions", Verdict::Warn, "NVML does not start"},
  };
  int number = 0;
  for (const auto& planted : kPlanted) {
    std::string faults = planted.faults;
    if (const std::size_t at = faults.find("FILE"); at != std::string::npos) {
      faults.replace(at, 4, folder.path() + "/count" + std::to_string(number++));
    }
    const Plant plant("SIMCUDA_GPU_FAULTS", faults);
    const Report report = qualify_gpus(1);
    const TestResult result = result_of(report, planted.test);
    INFO(faults << "\n" << render_table(report));
    CHECK(result.verdict == planted.verdict);
    CHECK(has(result.reason, planted.reason));
    CHECK(report.verdict >= planted.verdict);
    CHECK((report.exit_code == ExitCode::Pass) == (report.verdict == Verdict::Warn));
  }
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
  options.time_limit_s = 1;
  const Report report = conduct(options, registry(), [](const TestResult&) {});
  INFO(render_table(report));
  CHECK(has(result_of(report, "capacity", 0).reason, "did not end within 1 s"));
  CHECK(has(result_of(report, "latency", 0).reason, "did not end within 1 s"));
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

TEST_CASE("a GPU with less memory than its model has is found") {
  const Plant plant("SIMCUDA_CAPACITY_BYTES", "107374182400");
  const Report report = qualify_gpus(1);
  INFO(render_table(report));
  CHECK(complaints(report) == std::vector<std::string>{"capacity"});
  CHECK(has(result_of(report, "capacity").reason, "capacity.total_of_baseline"));
}

TEST_CASE("no GPU at all is no verdict") {
  const Plant plant("SIMCUDA_DEVICES", "0");
  ConductOptions options = options_for(0);
  CHECK_THROWS_AS(conduct(options, registry(), [](const TestResult&) {}), EnvironmentError);
}

}  // namespace allocmark::qualify

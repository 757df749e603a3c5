// Goal: of every fault that a simulated GPU can have it is known which test finds it, or why none
// does. Method: whole runs at the level quick on two simulated GPUs, of which the first has one
// planted fault (SIMCUDA_GPU_FAULTS in simcu.h). What was found is the table of
// harness/tools/qualify/FAULTS.md, which this test writes (scripts/check/approve_goldens.sh) and
// compares.
#include <cstddef>
#include <regex>
#include <set>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include "base/input_file.h"
#include "harness/tools/qualify/test.h"
#include "harness/tools/qualify/writers.h"
#include "tests/catch.h"
#include "tests/harness/qualify/planted.h"
#include "tests/support/golden.h"
#include "tests/support/temporary_folder.h"

namespace allocmark::qualify {
namespace {

struct Fault {
  const char *keys, *meaning;  // FILE stands for a fresh file
  const char* limit = "";      // why nothing finds it
};

constexpr Fault kFaults[] = {
    {"lost_at=3000;0:lost_file=FILE", "falls off the bus"},
    {"hang_at=100", "a call never returns"},
    {"leak_every=2", "every 2nd cudaFree forgets the memory"},
    {"leak_every=7", "every 7th does"},
    {"leak_every=50", "every 50th does"},
    {"corrupt_view=6000", "a bit flips where a test looks"},
    {"corrupt_view=100000", "a bit flips where no test looks",
     "integrity looks at one word in 32 MiB of a simulated GPU, at every word of a real one"},
    {"slow_percent=1000", "calls take ten times as long"},
    {"slow_percent=200", "calls take twice as long"},
    {"slow_percent=120", "calls take a fifth longer",
     "within what two machines differ by; `allocmark merge` compares many"},
    {"ecc_corrected=50", "50 corrected memory errors, and no more"},
    {"ecc_corrected=5", "5 corrected memory errors, and no more",
     "up to 10 since the driver was loaded are taken for cosmic rays"},
    {"ecc_corrected=FILE", "corrected memory errors while tests run"},
    {"ecc_uncorrected=1", "an uncorrected memory error before"},
    {"ecc_uncorrected=FILE", "uncorrected memory errors while tests run"},
    {"ecc_mode=0", "error correction is off"},
    {"retired_pages=3", "3 rows of memory put out of use before"},
    {"retired_pages=65", "65 rows"},
    {"retired_pages=FILE", "rows put out of use while tests run"},
    {"remap_failed=1", "faulty memory could not be put out of use"},
    {"throttle=64", "slowed down by heat, from the start"},
    {"celsius=80", "80 degrees C when idle"},
    {"sm_mhz=900", "its clock stays below half"},
    {"pcie_width=8", "8 of 16 PCIe lanes"},
    {"power_limit_mw=500000", "500 of 700 W"},
    {"foreign_bytes=8589934592", "another program uses it"},
    {"xid=79", "the driver reports Xid 79"},
    {"no_permission=1", "NVML refuses to tell of errors"},
    {"nvml_error=9", "NVML does not start"},
};

// What begins while a long level runs, whose time is virtual on a simulated GPU.
constexpr Fault kLateFaults[] = {
    {"after_s=3600;0:leak_every=50", "every 50th cudaFree forgets the memory, after an hour"},
    {"after_s=3600;0:slow_percent=200", "calls take twice as long after an hour"},
    {"slow_percent_per_hour=50", "calls take half as long again with every hour"},
    {"after_s=3600;0:corrupt_view=6000", "a bit flips after an hour"},
    {"after_s=3600;0:lost_at=1", "falls off the bus after an hour"},
    {"after_s=3600;0:ecc_uncorrected=2", "uncorrected memory errors after an hour"},
};

// "`gpu/leaks` FAIL, `gpu/recovery` WARN" of the first GPU, and of tests of the node.
std::string found_by(const Report& report) {
  std::string text;
  for (const auto* list : {&report.gpus.at(0).tests, &report.node_tests}) {
    for (const TestResult& test : *list) {
      if (test.verdict < Verdict::Warn) continue;
      text += fmt::format("{}`{}` {}", text.empty() ? "" : ", ", test_id(test),
                          to_string(test.verdict));
    }
  }
  return text;
}

// With the fault's keys, and FILE as `fresh_path`.
Report qualify_with(const Fault& fault, const std::string& fresh_path, const char* level) {
  std::string keys = fault.keys;
  if (const std::size_t at = keys.find("FILE"); at != std::string::npos) {
    keys.replace(at, 4, fresh_path);
  }
  const Plant plant("SIMCUDA_GPU_FAULTS", "0:" + keys);
  ConductOptions options = options_for(2);
  options.level = find_level(level);
  // A busy machine takes seconds for what takes none; a hanging call takes all of it, twice.
  options.time_limit_s = keys.starts_with("hang_at") ? 8 : 60;
  return conduct(options, registry(), [](const TestResult&) {});
}

// Every key of the list in gpu_faults.cc.
std::set<std::string> known_keys() {
  const std::string code = read_file("harness/simcuda/shim/gpu_faults.cc");
  const std::size_t begin = code.find("bool is_key(");
  REQUIRE(begin != std::string::npos);
  const std::string list = code.substr(begin, code.find(';', begin) - begin);
  const std::regex quoted("\"(\\w+)\"");
  std::set<std::string> keys;
  for (std::sregex_iterator at(list.begin(), list.end(), quoted), end; at != end; ++at) {
    keys.insert((*at)[1]);
  }
  return keys;
}

void forget_keys(const Fault& fault, std::set<std::string>& keys) {
  for (const std::string& key : known_keys()) {
    if ((":" + std::string(fault.keys)).find(":" + key + "=") != std::string::npos) keys.erase(key);
  }
}

constexpr const char* kLateHead = R"(
## Faults that begin later

The level `extra-long` takes 8 hours, which are virtual on a simulated GPU. The level `quick` found
nothing of these.

| planted (`SIMCUDA_GPU_FAULTS=0:...`) | what is wrong | found by | exit code |
| --- | --- | --- | --: |
)";

constexpr const char* kHead =
    R"(# What `qualify` finds, and what it does not

Each fault was planted in the first of two simulated H200s, and the level `quick` run. The second
GPU was found healthy each time. A test makes this page
(`tests/harness/qualify/qualify_faults_test.cc`), so it says what the program does.

| planted (`SIMCUDA_GPU_FAULTS=0:...`) | what is wrong | found by | exit code |
| --- | --- | --- | --: |
)";

}  // namespace

TEST_CASE("every fault of a simulated GPU is found, or the page says why not, as approved") {
  std::set<std::string> keys = known_keys();
  std::string page = kHead;
  int number = 0;
  const TemporaryFolder folder;
  for (const Fault& fault : kFaults) {
    forget_keys(fault, keys);
    const std::string keys_text = fault.keys;
    const Report report =
        qualify_with(fault, folder.path("count" + std::to_string(number++)), "quick");
    INFO(keys_text << "\n" << render_table(report));
    const std::string found = found_by(report);
    CHECK(found.empty() == !std::string(fault.limit).empty());
    // NVML is one for all GPUs.
    if (keys_text != "nvml_error=9") CHECK(report.gpus.at(1).verdict == Verdict::Pass);
    page += fmt::format("| `{}` | {} | {} | {} |\n", fault.keys, fault.meaning,
                        found.empty() ? std::string("nothing: ") + fault.limit : found,
                        static_cast<int>(report.exit_code));
  }
  page += kLateHead;
  for (const Fault& fault : kLateFaults) {
    forget_keys(fault, keys);
    const Report report = qualify_with(fault, "", "extra-long");
    INFO(fault.keys << "\n" << render_table(report));
    const std::string found = found_by(report);
    CHECK_FALSE(found.empty());
    CHECK(found_by(qualify_with(fault, "", "quick")).empty());
    CHECK(report.gpus.at(1).verdict == Verdict::Pass);
    page += fmt::format("| `{}` | {} | {} | {} |\n", fault.keys, fault.meaning, found,
                        static_cast<int>(report.exit_code));
  }
  INFO("keys that no row plants: " << fmt::format("{}", fmt::join(keys, ", ")));
  CHECK(keys.empty());
  check_file("harness/tools/qualify/FAULTS.md", page);
}

}  // namespace allocmark::qualify

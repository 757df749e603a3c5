// Goal: while cells of a GPU run, one process holds its driver open, and it ends with them. Method:
// a stand-in for 'allocmark cell' that writes down its number.
#include "harness/core/run/open_driver.h"
#include "base/output_file.h"

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "harness/core/run/run.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {
namespace {

// The stand-ins that have said who they are: "PID DEVICE".
class Log {
 public:
  Log() {
    write_file(path_, "");
    REQUIRE(::setenv("OPEN_DRIVER_LOG", path_.c_str(), 1) == 0);
  }
  ~Log() { ::unsetenv("OPEN_DRIVER_LOG"); }

  // Waits for the first of them, where one is wanted.
  [[nodiscard]] std::vector<std::string> words(bool wait) const {
    std::vector<std::string> found;
    for (int tries = 0; tries < 1000 && found.empty(); ++tries) {
      std::istringstream text(read_file(path_));
      for (std::string word; text >> word;) found.push_back(word);
      if (!wait) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return found;
  }

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_.file("log");
};

bool runs(const std::string& pid) { return kill(std::stoi(pid), 0) == 0 || errno != ESRCH; }

CellSpec cell_on(const std::string& device) {
  CellSpec spec;
  spec.key = {.workload = "fine",
              .allocator = "A",
              .conf = "",
              .device = device,
              .capacity = "unlimited",
              .seed = 1};
  spec.timeout_s = 60;
  return spec;
}

}  // namespace

TEST_CASE("a process holds a GPU's driver open for as long as it is wanted") {
  const Log log;
  std::string pid;
  {
    const OpenDriver driver({"sim:h200", "cuda:1"}, MISBEHAVING_CELL);
    const std::vector<std::string> words = log.words(true);
    REQUIRE(words.size() == 2);
    CHECK(words[1] == "cuda:1");
    pid = words[0];
    CHECK(runs(pid));
  }
  CHECK_FALSE(runs(pid));
}

TEST_CASE("simulated devices need no open driver") {
  const Log log;
  { const OpenDriver driver({"sim:h200"}, MISBEHAVING_CELL); }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(log.words(false).empty());
}

TEST_CASE("a program that cannot be started is no reason to stop") {
  CHECK_NOTHROW(OpenDriver({"cuda:0"}, "/absent/allocmark"));
}

TEST_CASE("cells of a GPU run beside the process that holds its driver open") {
  const Log log;
  std::size_t held_count = 0;
  std::vector<CellResult> results;
  REQUIRE(run_cells({cell_on("cuda:0"), cell_on("cuda:0")}, {.program_path = MISBEHAVING_CELL},
                    [&](const CellResult& result) {
                      const std::vector<std::string> words = log.words(true);
                      if (words.size() == 2 && runs(words[0])) ++held_count;
                      results.push_back(result);
                    }));
  REQUIRE(results.size() == 2);
  for (const CellResult& result : results) CHECK(result.status == CellStatus::Ok);
  CHECK(held_count == 2);
  CHECK_FALSE(runs(log.words(true)[0]));
}

}  // namespace allocmark

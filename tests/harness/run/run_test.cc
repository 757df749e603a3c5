// Cells in processes of their own: whatever a cell does, the run gets a result for it, ends, and
// leaves no process behind. The cells are tests/harness/run/misbehaving_cell.cc.
#include "harness/core/run/run.h"
#include "base/own_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "harness/core/run/cell_process.h"  // IWYU pragma: keep (its Packed)
#include "harness/job/interrupt.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text_checks.h"

namespace allocmark {
namespace {

using namespace std::chrono_literals;

// Real GPUs' cells get the environment as it is, so that no simcuda is needed to start them.
CellSpec make_spec(const std::string& behaviour, std::uint64_t timeout_s = 60) {
  CellSpec spec;
  spec.key = {.workload = behaviour,
              .allocator = "null",
              .conf = "",
              .device = "cuda:0",
              .capacity = "unlimited",
              .seed = 1,
              .on_oom = "skip"};
  spec.timeout_s = timeout_s;
  return spec;
}

CellResult run_one(const CellSpec& spec) {
  std::vector<CellResult> results;
  const bool completed = run_cells({spec}, {.program_path = MISBEHAVING_CELL},
                                   [&](const CellResult& result) { results.push_back(result); });
  REQUIRE(completed);
  REQUIRE(results.size() == 1);
  CHECK(results[0].key == spec.key);
  return results[0];
}

// Waits for a condition that another process brings about; fails after ten seconds.
template <typename Condition>
bool comes_true(Condition condition) {
  for (int i = 0; i < 1000; ++i) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

bool is_alive(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  return std::getline(file, text) && !contains(text, ") Z ");
}

TEST_CASE("a cell is told what an earlier one of the same workload and seed found to need") {
  CellSpec other = make_spec("packs");
  other.key.seed = 2;
  std::vector<std::optional<std::uint64_t>> packed;
  const std::vector<CellSpec> specs{make_spec("packs"), make_spec("packs"), other,
                                    make_spec("good"), make_spec("packs")};
  REQUIRE(run_cells(specs, {.program_path = MISBEHAVING_CELL},
                    [&](const CellResult& result) { packed.push_back(result.packed_bytes); }));
  CHECK(packed == std::vector<std::optional<std::uint64_t>>{4096, 4097, 4096, std::nullopt, 4098});
}

TEST_CASE("a cell's result comes back whole") {
  const CellResult result = run_one(make_spec("good"));
  CHECK(result.status == CellStatus::Ok);
  CHECK(result.event_count == 42);
}

TEST_CASE("a specification survives the way to the cell") {
  CellSpec spec = make_spec("w,1:\"\\\xC3\xA9");
  spec.key.conf = "roundup_power2_divisions:[256:1,>:2]";
  spec.pass_count = 7;
  spec.verify = VerifyLevel::Whole;
  spec.record = false;
  spec.placements_path = "/a b";
  spec.packed_bytes = 3;
  const CellSpec back = job::from_text<CellSpec>(job::to_text(spec), "a cell");
  CHECK(back.key == spec.key);
  CHECK(back.pass_count == 7);
  CHECK(back.verify == VerifyLevel::Whole);
  CHECK_FALSE(back.record);
  CHECK(back.timeout_s == 60);
  CHECK(back.placements_path == "/a b");
  CHECK(back.packed_bytes == 3);
  // Programs from before schema 1.15 do not say it.
  const std::string field = "\"packed_bytes\":3";
  std::string older = job::to_text(spec);
  REQUIRE(contains(older, field));
  older.replace(older.find(field), field.size(), "\"older\":3");
  CHECK(job::from_text<CellSpec>(older, "a cell").packed_bytes == 0);
  for (const char* text : {"", "{", "{}", "[]", "{\"key\":3}"}) {
    CHECK_THROWS_AS(job::from_text<CellSpec>(text, "a cell"), Error);
  }
}

TEST_CASE("a crash is a status with the signal's name and the last output") {
  const CellResult result = run_one(make_spec("crash"));
  CHECK(result.status == CellStatus::Crashed);
  CHECK(contains(result.reason, "SIGSEGV"));
  CHECK(contains(result.reason, "about to crash"));
}

TEST_CASE("a cell that crashes after its result has crashed") {
  CHECK(run_one(make_spec("crash_late")).status == CellStatus::Crashed);
}

TEST_CASE("a cell that hangs is ended and has timed out, whatever it holds on to") {
  for (const char* kind : {"hang", "hang_with_child", "hang_ignoring_signals"}) {
    INFO(kind);
    const CellResult result = run_one(make_spec(kind, 1));
    CHECK(result.status == CellStatus::TimedOut);
    CHECK(contains(result.reason, "1 s (--timeout)"));
  }
}

TEST_CASE("a process that a cell leaves behind delays nothing") {
  CHECK(run_one(make_spec("leave_child")).status == CellStatus::Ok);
}

TEST_CASE(
    "no result, half a result, garbage and another cell's result are failures with a reason") {
  const std::map<std::string, std::string> expected = {
      {"silent", "exit code 0 and no valid result: it wrote none"},
      {"garbage", "no valid result"},
      {"half", "no valid result"},
      {"other_key", "it is another cell's"},
      {"exit3", "exit code 3"},
  };
  for (const auto& [kind, reason] : expected) {
    INFO(kind);
    const CellResult result = run_one(make_spec(kind));
    CHECK(result.status == CellStatus::Failed);
    CHECK(contains(result.reason, reason));
  }
  CHECK(contains(run_one(make_spec("exit3")).reason, "gave up"));
}

TEST_CASE("endless output fills no memory and keeps its end") {
  const CellResult chatter = run_one(make_spec("chatter"));
  CHECK(chatter.status == CellStatus::Failed);
  CHECK(contains(chatter.reason, "last words"));
  CHECK(chatter.reason.size() < 2500);
  const CellResult flood = run_one(make_spec("flood"));
  CHECK(flood.status != CellStatus::Ok);
  CHECK(flood.reason.size() < 2500);
}

TEST_CASE("a program that is not there is a failure of each cell") {
  std::vector<CellResult> results;
  CHECK(run_cells({make_spec("a"), make_spec("b")}, {.program_path = "/nonexistent/allocmark"},
                  [&](const CellResult& result) { results.push_back(result); }));
  REQUIRE(results.size() == 2);
  CHECK(results[0].status == CellStatus::Failed);
  CHECK(contains(results[0].reason, "/nonexistent/allocmark"));
}

TEST_CASE("many cells, several at a time, each give one result") {
  std::vector<CellSpec> specs;
  for (std::uint64_t i = 0; i < 60; ++i) {
    specs.push_back(make_spec(i % 7 == 3 ? "crash" : "good"));
    specs.back().key.seed = i;
  }
  std::map<std::uint64_t, int> seen;
  CHECK(run_cells(specs, {.program_path = MISBEHAVING_CELL, .job_count = 5},
                  [&](const CellResult& result) {
                    ++seen[result.key.seed];
                    const bool crashes = result.key.seed % 7 == 3;
                    CHECK(result.status == (crashes ? CellStatus::Crashed : CellStatus::Ok));
                  }));
  CHECK(seen.size() == 60);
}

TEST_CASE("cells that are dealt out see a GPU each, and nobody else on it") {
  CHECK(visible_gpu(nullptr, 3) == "3");
  CHECK(visible_gpu("5,GPU-7f", 1) == "GPU-7f");
  CHECK(visible_gpu("5", 1).empty());
  const TemporaryFolder folder;
  std::vector<CellSpec> specs(12, make_spec("visible"));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    specs[i].key.seed = i;
    specs[i].placements_path = folder.path("log");
  }
  for (const std::uint32_t gpu_count : {3u, 0u}) {
    std::map<std::string, int> seen;
    CHECK(run_cells(specs,
                    {.program_path = MISBEHAVING_CELL, .job_count = 3, .gpu_count = gpu_count},
                    [&](const CellResult& result) { ++seen[result.trace_name]; }));
    if (gpu_count == 0) {
      CHECK(seen == std::map<std::string, int>({{"all", 12}}));
      continue;
    }
    CHECK(seen.size() == 3);
    std::map<std::string, int> on_gpu;
    std::istringstream lines(folder.read("log"));
    for (std::string word, gpu; lines >> word >> gpu;) {
      on_gpu[gpu] += word == "begin" ? 1 : -1;
      CHECK(on_gpu[gpu] <= 1);
    }
  }
}

TEST_CASE("an error while keeping results ends the running cells and goes on to the caller") {
  const TemporaryFolder folder;
  CellSpec hanging = make_spec("pid", 0);
  hanging.placements_path = folder.path("pid");
  CHECK_THROWS_AS(
      run_cells({hanging, make_spec("good")}, {.program_path = MISBEHAVING_CELL, .job_count = 2},
                [&](const CellResult&) {
                  comes_true([&] { return !folder.read("pid").empty(); });
                  throw std::runtime_error("disk full");
                }),
      std::runtime_error);
  CHECK_FALSE(is_alive(std::stoi(folder.read("pid"))));
}

TEST_CASE("an interrupt ends running cells, starts no more, and keeps what is done") {
  const TemporaryFolder folder;
  CellSpec hanging = make_spec("pid", 0);
  hanging.placements_path = folder.path("pid");
  const InterruptGuard interrupt;
  int result_count = 0;
  std::thread interrupting;
  const bool completed =
      run_cells({make_spec("good"), hanging, make_spec("good")},
                {.program_path = MISBEHAVING_CELL, .job_count = 1, .interrupt = &interrupt},
                [&](const CellResult&) {
                  ++result_count;
                  interrupting = std::thread([&] {
                    comes_true([&] { return !folder.read("pid").empty(); });
                    kill(getpid(), SIGINT);
                  });
                });
  interrupting.join();
  CHECK_FALSE(completed);
  CHECK(result_count == 1);
  CHECK_FALSE(is_alive(std::stoi(folder.read("pid"))));
}

TEST_CASE("cells end with the process that started them") {
  const TemporaryFolder folder;
  const pid_t parent = fork();
  if (parent == 0) {
    CellSpec hanging = make_spec("pid", 0);
    hanging.placements_path = folder.path("pid");
    static_cast<void>(
        run_cells({hanging}, {.program_path = MISBEHAVING_CELL}, [](const CellResult&) {}));
    _exit(0);
  }
  REQUIRE(comes_true([&] { return folder.read("pid").find('\n') != std::string::npos; }));
  const pid_t cell = std::stoi(folder.read("pid"));
  REQUIRE(is_alive(cell));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(comes_true([&] { return !is_alive(cell); }));
}

TEST_CASE("changes to the environment replace and add") {
  setenv("ALLOCMARK_TEST_A", "old", 1);
  int a_count = 0;
  bool has_b = false;
  for (const std::string& entry :
       environment_with({{"ALLOCMARK_TEST_A", "new"}, {"ALLOCMARK_TEST_B", ""}})) {
    if (entry.starts_with("ALLOCMARK_TEST_A=")) {
      ++a_count;
      CHECK(entry == "ALLOCMARK_TEST_A=new");
    }
    has_b = has_b || entry == "ALLOCMARK_TEST_B=";
  }
  CHECK(a_count == 1);
  CHECK(has_b);
}

}  // namespace
}  // namespace allocmark

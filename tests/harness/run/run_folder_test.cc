// The folder of a run: made once, added to cell by cell, gone on with after a break, and never
// mixed with another run.
#include "harness/core/run/run_folder.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text_checks.h"

namespace allocmark {
namespace {

CellKey make_key(std::uint64_t seed) {
  return {.workload = "w",
          .allocator = "null",
          .conf = "",
          .device = "sim:h200",
          .capacity = "unlimited",
          .seed = seed,
          .on_oom = "skip"};
}

CellResult make_result(std::uint64_t seed, CellStatus status = CellStatus::Ok) {
  CellResult result;
  result.key = make_key(seed);
  result.status = status;
  result.reason = status == CellStatus::Ok ? "" : "because";
  return result;
}

RunManifest make_manifest(std::uint64_t count = 3) {
  RunManifest manifest{.title = "default",
                       .pass_count = 3,
                       .verify = VerifyLevel::Whole,
                       .timeout_s = 60,
                       .cells = {}};
  for (std::uint64_t i = 0; i < count; ++i) {
    manifest.cells.push_back(make_key(i));
  }
  return manifest;
}

Environment make_environment() {
  Environment environment;
  environment.git_sha = "a1";
  environment.device = "sim:h200";
  return environment;
}

template <typename Function>
std::string error_of(Function function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a plan survives its file") {
  const RunManifest back = manifest_from_json(to_json(make_manifest()), "plan.json");
  CHECK(back.title == "default");
  CHECK(back.pass_count == 3);
  CHECK(back.verify == VerifyLevel::Whole);
  CHECK(back.timeout_s == 60);
  CHECK(back.cells == make_manifest().cells);
  CHECK_THROWS_AS(manifest_from_json("{}", "plan.json"), UsageError);
  CHECK_THROWS_AS(manifest_from_json("", "plan.json"), UsageError);
}

TEST_CASE("resume keeps finished cells and drops those that crashed, failed or timed out") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  {
    RunFolder run = RunFolder::create(path, make_manifest(5), make_environment());
    run.append(make_result(0));
    run.append(make_result(1, CellStatus::Crashed));
    run.append(make_result(2, CellStatus::OomStopped));
    run.append(make_result(3, CellStatus::TimedOut));
    run.append(make_result(4, CellStatus::Failed));
  }
  RunFolder run = RunFolder::resume(path, make_manifest(5), make_environment());
  REQUIRE(run.kept().size() == 2);
  CHECK(run.kept()[0].key.seed == 0);
  CHECK(run.kept()[1].key.seed == 2);
  run.append(make_result(1));
  const RunFile file = read_run_file(results_path(path));
  REQUIRE(file.cells.size() == 5);
  CHECK(file.cells[1].status == CellStatus::Ok);
}

TEST_CASE("a cell whose passes were not all made counts, and is run again by resume") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  CellResult part = make_result(1);
  part.passes_to_come = 2;
  {
    RunFolder run = RunFolder::create(path, make_manifest(2), make_environment());
    run.append(make_result(0));
    run.append(part);
  }
  CHECK(read_run_file(results_path(path)).cells.size() == 2);
  RunFolder run = RunFolder::resume(path, make_manifest(2), make_environment());
  REQUIRE(run.kept().size() == 1);
  CHECK(run.kept()[0].key.seed == 0);
  run.append(make_result(1));
  run.finish();
  const RunFile file = read_run_file(results_path(path));
  CHECK(file.replaced_line_count == 0);
  CHECK(file.cells.at(1).passes_to_come == 0);
}

TEST_CASE("the order of passes is part of the plan, and of plans without one it is cell by cell") {
  RunManifest manifest = make_manifest();
  CHECK_FALSE(manifest_from_json(to_json(manifest), "plan.json").in_rounds);
  manifest.in_rounds = true;
  const std::string text = to_json(manifest);
  CHECK(manifest_from_json(text, "plan.json").in_rounds);
  const std::string key = "\"pass_order\": \"rounds\",";
  const std::size_t place = text.find(key);
  REQUIRE(place != std::string::npos);
  const std::string older = text.substr(0, place) + text.substr(place + key.size());
  CHECK_FALSE(manifest_from_json(older, "plan.json").in_rounds);
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  static_cast<void>(RunFolder::create(path, manifest, make_environment()));
  manifest.in_rounds = false;
  CHECK(contains(error_of([&] { (void)RunFolder::resume(path, manifest, make_environment()); }),
                 "pass order: was rounds, is cells"));
}

TEST_CASE("resume goes on after a last line that was cut short") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  {
    RunFolder run = RunFolder::create(path, make_manifest(), make_environment());
    run.append(make_result(0));
  }
  std::ofstream(results_path(path), std::ios::app) << "{\"kind\":\"cell\",\"workl";
  {
    RunFolder run = RunFolder::resume(path, make_manifest(), make_environment());
    CHECK(run.kept().size() == 1);
    run.append(make_result(1));
  }
  const RunFile file = read_run_file(results_path(path));
  CHECK(file.cells.size() == 2);
  CHECK_FALSE(file.torn);
}

TEST_CASE("resume begins anew what was killed before its first line of results") {
  const TemporaryFolder folder;
  const auto resumes = [&](const std::string& path) {
    RunFolder run = RunFolder::resume(path, make_manifest(), make_environment());
    CHECK(run.kept().empty());
    REQUIRE(run.notes().size() == 1);
    CHECK(contains(run.notes()[0], "begins anew"));
    run.append(make_result(1));
    return read_run_file(results_path(path)).cells.size() == 1;
  };
  // Of a folder alone, of a plan alone, of a file without a line.
  std::filesystem::create_directory(folder.path("empty"));
  CHECK(resumes(folder.path("empty")));
  for (const char* name : {"planned", "cut"}) {
    static_cast<void>(RunFolder::create(folder.path(name), make_manifest(), make_environment()));
    std::filesystem::remove(results_path(folder.path(name)));
  }
  CHECK(resumes(folder.path("planned")));
  std::ofstream(results_path(folder.path("cut"))) << "{\"kind\":\"environ";
  CHECK(resumes(folder.path("cut")));
  // What is not there, and what is no run, is not made one.
  for (const char* name : {"none", "other"}) {
    if (name == std::string("other")) {
      std::filesystem::create_directory(folder.path(name));
      std::ofstream(folder.path("other/notes.txt")) << "mine";
    }
    CHECK_THROWS_AS(RunFolder::resume(folder.path(name), make_manifest(), make_environment()),
                    Error);
  }
}

TEST_CASE("resume takes more cells, and refuses another run saying what differs") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  static_cast<void>(RunFolder::create(path, make_manifest(3), make_environment()));
  CHECK(error_of([&] {
          static_cast<void>(RunFolder::resume(path, make_manifest(4), make_environment()));
        }) == "no error");

  const std::string fewer = error_of(
      [&] { static_cast<void>(RunFolder::resume(path, make_manifest(3), make_environment())); });
  CHECK(fewer.find("cells: 1 of the folder's 4") != std::string::npos);

  RunManifest passes = make_manifest(4);
  passes.pass_count = 5;
  CHECK(error_of([&] {
          static_cast<void>(RunFolder::resume(path, passes, make_environment()));
        }).find("passes: was 3, is 5") != std::string::npos);

  Environment environment = make_environment();
  environment.git_sha = "b2";
  CHECK(error_of([&] {
          static_cast<void>(RunFolder::resume(path, make_manifest(4), environment));
        }).find("git_sha: was 'a1', is 'b2'") != std::string::npos);
}

TEST_CASE("a folder with something in it is not overwritten") {
  const TemporaryFolder folder;
  std::ofstream(folder.path("mine.txt")) << "precious";
  CHECK_THROWS_AS(RunFolder::create(folder.path(), make_manifest(), make_environment()),
                  UsageError);
  CHECK(folder.read("mine.txt") == "precious");
}

TEST_CASE("a folder has one writer at a time, and the next one when that has gone") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  const auto resume = [&] {
    static_cast<void>(RunFolder::resume(path, make_manifest(), make_environment()));
  };
  {
    const RunFolder run = RunFolder::create(path, make_manifest(), make_environment());
    CHECK_THROWS_AS(resume(), EnvironmentError);
    const std::string refused = error_of(resume);
    CHECK(refused.find("a run is writing to this folder") != std::string::npos);
    CHECK(refused.find("process " + std::to_string(getpid())) != std::string::npos);
    CHECK_THROWS_AS(RunFolder::create(path, make_manifest(), make_environment()), EnvironmentError);
  }
  CHECK(error_of(resume) == "no error");
  CHECK_FALSE(std::filesystem::exists(path + "/.lock"));
  // A file that a killed process left, with what a terminal would obey.
  std::ofstream(path + "/.lock") << "process 1 \x1b[31m on elsewhere\n";
  CHECK(error_of(resume) == "no error");
}

TEST_CASE("new folders are never the same one") {
  const TemporaryFolder folder;
  const std::string wanted = folder.path("results/20261122T160000Z-run");
  CHECK(make_new_folder(wanted) == wanted);
  CHECK(make_new_folder(wanted) == wanted + "-2");
  CHECK(make_new_folder(wanted) == wanted + "-3");
  CHECK_THROWS_AS(make_new_folder("/dev/null/run"), FileError);
}

TEST_CASE("folders that cannot be made or resumed are named") {
  const std::string file_as_folder = error_of([] {
    static_cast<void>(RunFolder::create("/dev/null/run", make_manifest(), make_environment()));
  });
  CHECK(file_as_folder.find("/dev/null/run") != std::string::npos);
  const TemporaryFolder folder;
  const std::string missing = error_of([&] {
    static_cast<void>(RunFolder::resume(folder.path("none"), make_manifest(), make_environment()));
  });
  CHECK(missing.find(folder.path("none")) != std::string::npos);
}

// A limit on the length of files fails a write as a full disk does, and needs no disk. In a process
// of its own, because it lasts.
TEST_CASE("a full disk is an error with the path, and what was there stays whole") {
  const TemporaryFolder folder;
  const std::string path = folder.path("run");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 16'384, .rlim_max = 16'384};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      RunFolder run = RunFolder::create(path, make_manifest(), make_environment());
      for (std::uint64_t i = 0; i < 1000; ++i) {
        run.append(make_result(i));
      }
    } catch (const FileError& error) {
      _exit(std::string(error.what()).find(results_path(path)) != std::string::npos ? 0 : 1);
    }
    _exit(2);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  const RunFile file = read_run_file(results_path(path));
  CHECK_FALSE(file.torn);
  CHECK(file.cells.size() > 1);
  CHECK(std::filesystem::file_size(results_path(path)) <= 16'384);
}

}  // namespace
}  // namespace allocmark

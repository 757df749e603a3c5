// Goal: a run knows every file that it depends on, and finds one that somebody changed. Method:
// files that are written, marked, and written anew.
#include "harness/core/run/file_marks.h"

#include <string>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "harness/core/run/plan.h"
#include "harness/core/run/run_folder.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"

namespace allocmark {

TEST_CASE("a plan names its program and the files of its config strings with what is in them") {
  const TemporaryFolder folder;
  const std::string library = folder.path() + "/plugin.so";
  write_file(library, "one");
  const std::vector<CellKey> cells{{.workload = "w",
                                    .allocator = "pluggable",
                                    .conf = "library:" + library + ",malloc:m",
                                    .device = "sim:h200",
                                    .capacity = "unlimited"}};
  RunManifest manifest{
      .title = "t", .cells = cells, .program = mark_file(library), .files = mark_files(cells)};
  REQUIRE(manifest.files.size() == 1);
  CHECK(manifest.files.front().path == library);
  const RunManifest read = manifest_from_json(to_json(manifest), "plan.json");
  CHECK(read.program == manifest.program);
  CHECK(read.files == manifest.files);
  write_file(library, "two");
  CHECK_FALSE(mark_file(library) == manifest.program);
  write_file(library, "one");
  CHECK(mark_file(library) == manifest.program);
  CHECK(mark_file(folder.path() + "/nothing").hash.empty());
}

TEST_CASE("the trace files of a workload are hashed in its order, whatever stands around them") {
  const TemporaryFolder folder;
  const std::string one = folder.path("one.csv"), two = folder.path("two.csv");
  write_file(one, "1");
  write_file(two, "2");
  const std::string hash = hash_trace_files("file:" + one);
  CHECK(hash.size() == 16);
  CHECK(hash == mark_file(one).hash);
  CHECK(hash_trace_files("file:" + one + "+kernels:20us") == hash);
  CHECK(hash_trace_files("comb:count=4 beside file:" + one) == hash);
  const std::string both = "file:" + two + " then file:" + one;
  CHECK(hash_trace_files(both) == mark_file(two).hash + "," + hash);
  CHECK(hash_trace_files("comb:count=4").empty());
  CHECK_THROWS_AS(hash_trace_files("file:" + folder.path("nothing.csv")), FileError);
  write_file(one, "3");
  CHECK(hash_trace_files("file:" + one) != hash);
}

TEST_CASE("a trace file whose name reads like another cell's workload is a file of its own") {
  const auto cell = [](const char* workload, const char* hash) {
    return CellKey{.workload = workload,
                   .allocator = "null",
                   .conf = "",
                   .device = "sim:h200",
                   .capacity = "unlimited",
                   .workload_files = hash};
  };
  const std::vector<FileMark> marks = mark_trace_files(
      {cell("file:a.csv", "0000000000000001"), cell("file:file:a.csv", "0000000000000002")});
  REQUIRE(marks.size() == 2);
  CHECK(marks[0].hash == "0000000000000001");
  CHECK(marks[1].hash == "0000000000000002");
}

TEST_CASE("another content of a trace file is another cell, and the run finds that it changed") {
  const TemporaryFolder folder;
  const std::string one = folder.path("one.csv"), two = folder.path("two.csv");
  const std::string workload = "file:" + two + " then file:" + one;
  const auto planned = [&](const std::string& text) {
    write_file(one, text);
    write_file(two, "2");
    PlanRequest request{.workloads = {{.text = workload, .files = hash_trace_files(workload)}},
                        .allocators = {"null"},
                        .confs = {},
                        .capacities = {"unlimited"},
                        .seeds = {1},
                        .device = "sim:h200"};
    return make_plan(request, {{.name = "null", .conf_keys = {}, .check_conf = {}}}).cells;
  };
  const std::vector<CellKey> first = planned("1"), again = planned("1"), edited = planned("3");
  CHECK(first.front().id() == again.front().id());
  CHECK(first.front().id() != edited.front().id());
  CHECK(first.front().id_by_name() == edited.front().id_by_name());
  CHECK(changed_since(mark_files(edited)).empty());
  CHECK(changed_since(mark_files(first)) == std::vector<std::string>{one});
}

}  // namespace allocmark

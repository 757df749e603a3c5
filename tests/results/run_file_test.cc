// Goal: what was measured survives a killed run, a full disk and a second run. Method: real files
// in a folder of their own, cut and edited by hand.
#include "results/run_file.h"

#include <csignal>
#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include <sys/resource.h>

#include "base/error.h"
#include "results/cell_source.h"
#include "results/json.h"
#include "tests/catch.h"
#include "tests/support/sample.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text_checks.h"

using namespace allocmark;

namespace {

void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

CellResult cell_of_seed(std::uint64_t seed, std::uint64_t oom_count) {
  CellResult cell = sample::cell();
  cell.key.seed = seed;
  cell.oom_count = oom_count;
  return cell;
}

void write_two_cells(const std::string& path) {
  RunFileWriter writer = RunFileWriter::create(path, sample::environment());
  writer.append(cell_of_seed(1, 10));
  writer.append(cell_of_seed(2, 20));
}

std::string read_error(const std::string& path) {
  try {
    (void)read_run_file(path);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("a run's file gives back the environment and the cells in order") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  const RunFile run = read_run_file(folder.file("results.jsonl"));
  CHECK(to_json_line(run.environment) == to_json_line(sample::environment()));
  REQUIRE(run.cells.size() == 2);
  CHECK(to_json_line(run.cells[1]) == to_json_line(cell_of_seed(2, 20)));
  CHECK_FALSE(run.torn);
  CHECK(run.whole_bytes == folder.read("results.jsonl").size());
}

TEST_CASE("each cell is in the file before append returns") {
  const TemporaryFolder folder;
  RunFileWriter writer = RunFileWriter::create(folder.file("results.jsonl"), sample::environment());
  CHECK(read_run_file(folder.file("results.jsonl")).cells.empty());
  writer.append(cell_of_seed(1, 10));
  CHECK(read_run_file(folder.file("results.jsonl")).cells.size() == 1);
}

TEST_CASE("of a cell that was run twice the last line counts, in the first one's place") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  RunFileWriter::resume(folder.file("results.jsonl")).append(cell_of_seed(1, 99));
  const RunFile run = read_run_file(folder.file("results.jsonl"));
  REQUIRE(run.cells.size() == 2);
  CHECK(run.cells[0].oom_count == 99);
  CHECK(run.cells[1].oom_count == 20);
  CHECK(run.replaced_line_count == 1);
}

TEST_CASE(
    "outlines name the same cells as their lines, which are read whole when they are asked for") {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  write_two_cells(path);
  CellResult again = cell_of_seed(1, 99);
  again.status = CellStatus::OomStopped;
  again.warnings = {"not deterministic: placements"};
  RunFileWriter::resume(path).append(again);
  const RunFile run = read_run_file(path, CellDetail::Outline);
  CHECK(run.cells.empty());
  REQUIRE(run.outlines.size() == 2);
  CHECK(run.replaced_line_count == 1);
  CHECK(run.outlines[0].key == again.key);
  CHECK(run.outlines[0].status == CellStatus::OomStopped);
  CHECK(run.outlines[0].decisions.differing);
  CHECK_FALSE(run.outlines[1].decisions.differing);
  const CellSource whole = cells_of_file(path, run.places);
  CHECK(to_json_line(whole.whole(0)) == to_json_line(again));
  CHECK(to_json_line(whole.whole(1)) == to_json_line(cell_of_seed(2, 20)));
}

TEST_CASE("results so far that a later line replaced can be taken out, and nothing else") {
  const TemporaryFolder folder;
  const std::string path = folder.file("results.jsonl");
  const auto part_of_seed = [](std::uint64_t seed) {
    CellResult part = cell_of_seed(seed, 1);
    part.passes_to_come = 2;
    return part;
  };
  const auto line_of = [](const CellResult& cell) { return to_json_line(cell) + "\n"; };
  RunFileWriter writer = RunFileWriter::create(path, sample::environment());
  const std::string head = folder.read("results.jsonl");
  const CellResult last = part_of_seed(3);
  CellResult crashed = cell_of_seed(2, 5);
  crashed.passes_to_come = 0;
  for (const CellResult& cell : {part_of_seed(2), part_of_seed(1), part_of_seed(1), crashed}) {
    writer.append(cell);
  }
  CellResult whole = cell_of_seed(1, 10);
  whole.passes_to_come = 0;
  for (const CellResult& cell : {whole, last, crashed}) writer.append(cell);
  REQUIRE(read_run_file(path).replaced_parts.size() == 3);
  drop_replaced_parts(path);
  // What was no part stays, though it was replaced, and so does a part that nothing replaced.
  CHECK(folder.read("results.jsonl") ==
        head + line_of(crashed) + line_of(whole) + line_of(last) + line_of(crashed));
  drop_replaced_parts(path);
  CHECK(read_run_file(path).cells.size() == 3);
}

TEST_CASE("a scenario that was edited between two halves of a run has its last results") {
  const TemporaryFolder folder;
  CellResult before = cell_of_seed(1, 10);
  before.key.workload_definition = "comb:count=4";
  CellResult after = cell_of_seed(1, 20);
  after.key.workload_definition = "comb:count=6";
  RunFileWriter writer = RunFileWriter::create(folder.file("results.jsonl"), sample::environment());
  writer.append(before);
  writer.append(after);
  const RunFile run = read_run_file(folder.file("results.jsonl"));
  REQUIRE(run.cells.size() == 1);
  CHECK(run.cells[0].oom_count == 20);
  CHECK(run.cells[0].key.workload_definition == "comb:count=6");
}

TEST_CASE("a last line cut short is reported, left out and cut off when the run goes on") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  const std::string whole = folder.read("results.jsonl");
  const std::size_t last_line = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t length = last_line + 1; length < whole.size() - 1; length += 101) {
    write_text(folder.file("results.jsonl"), std::string_view(whole).substr(0, length));
    const RunFile run = read_run_file(folder.file("results.jsonl"));
    CHECK(run.torn);
    CHECK(run.torn_line == 3);
    CHECK(run.cells.size() == 1);
    CHECK(run.whole_bytes == last_line);
  }
  RunFileWriter::resume(folder.file("results.jsonl")).append(cell_of_seed(2, 20));
  CHECK(folder.read("results.jsonl") == whole);
}

TEST_CASE("a last line that lacks only its newline counts, and gets it when the run goes on") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  const std::string whole = folder.read("results.jsonl");
  write_text(folder.file("results.jsonl"), std::string_view(whole).substr(0, whole.size() - 1));
  CHECK(read_run_file(folder.file("results.jsonl")).cells.size() == 2);
  CHECK_FALSE(read_run_file(folder.file("results.jsonl")).torn);
  RunFileWriter::resume(folder.file("results.jsonl")).append(cell_of_seed(3, 30));
  CHECK(read_run_file(folder.file("results.jsonl")).cells.size() == 3);
}

TEST_CASE("a corrupt line before the last one is an error with its number") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  std::string text = folder.read("results.jsonl");
  text.insert(text.find('\n') + 5, "#");
  write_text(folder.file("results.jsonl"), text);
  CHECK(contains(read_error(folder.file("results.jsonl")), "results.jsonl:2: "));
  CHECK_THROWS_AS(RunFileWriter::resume(folder.file("results.jsonl")), UsageError);
  CHECK(folder.read("results.jsonl") == text);
}

TEST_CASE("a missing, empty or foreign file is an error that says so") {
  const TemporaryFolder folder;
  CHECK(contains(read_error(folder.file("results.jsonl")), "No such file"));
  write_text(folder.file("results.jsonl"), "");
  CHECK(contains(read_error(folder.file("results.jsonl")), "is empty"));
  write_text(folder.file("results.jsonl"), "{\"kind\":\"environ");
  CHECK(contains(read_error(folder.file("results.jsonl")), "results.jsonl:1: "));
  write_text(folder.file("results.jsonl"), to_json_line(sample::cell()) + "\n");
  CHECK(contains(read_error(folder.file("results.jsonl")), "another kind"));
  write_text(folder.file("results.jsonl"), std::string(5000, '\0'));
  CHECK(contains(read_error(folder.file("results.jsonl")), "results.jsonl:1: "));
  CHECK(contains(read_error("/"), "is a folder"));
}

TEST_CASE("a file that holds results is not created again") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  const std::string whole = folder.read("results.jsonl");
  CHECK_THROWS_AS(RunFileWriter::create(folder.file("results.jsonl"), sample::environment()),
                  FileError);
  CHECK(folder.read("results.jsonl") == whole);
  CHECK_THROWS_AS(RunFileWriter::create("/no/such/folder/results.jsonl", sample::environment()),
                  FileError);
}

TEST_CASE("a line that does not fit on the disk is taken back and the lines before it stay whole") {
  const TemporaryFolder folder;
  write_two_cells(folder.file("results.jsonl"));
  const std::string whole = folder.read("results.jsonl");
  // A file size limit in the middle of the next line stands for a full disk: the write comes back
  // short, then fails.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  RunFileWriter writer = RunFileWriter::resume(folder.file("results.jsonl"));
  rlimit limit = before;
  limit.rlim_cur = whole.size() + 100;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::string message;
  try {
    writer.append(cell_of_seed(3, 30));
  } catch (const FileError& error) {
    message = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(contains(message, "cannot write the file"));
  CHECK(folder.read("results.jsonl") == whole);
  writer.append(cell_of_seed(3, 30));
  CHECK(read_run_file(folder.file("results.jsonl")).cells.size() == 3);
}

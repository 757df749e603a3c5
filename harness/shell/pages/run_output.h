// Results for people and programs: what 'run' prints at its end and 'report' writes again. A
// finished or unfinished results folder flows in.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "harness/core/run/run_folder.h"
#include "results/cell_source.h"
#include "results/schema.h"
#include "results/tables/writers.h"

namespace allocmark {

// A run's cells as summaries, and where each of them is to be had whole.
struct StoredCells {
  std::vector<CellResult> summaries = {};
  CellSource whole = {};
};
// All cells of the run's file; those of `keys` in their order, where there are any.
[[nodiscard]] StoredCells stored_cells(const std::string& folder, RunFile* file,
                                       const std::vector<CellKey>& keys = {});

// Prints "table", "markdown", "csv" or "json" (one object per line, as in results.jsonl). The table
// is as wide as stdout; `folder` has it whole.
void print_results(std::string_view format, const std::string& folder,
                   const Environment& environment, const StoredCells& cells);

// What results say against themselves, for people, the most frequent first: the run's warnings, and
// those of its cells with how many cells have them. At most a screen of lines; report.md has all.
[[nodiscard]] std::vector<std::string> warning_summary(const Environment& environment,
                                                       const std::vector<CellResult>& cells);

// `columns` of these cells, where they were noted already, save reading all of them once more.
// Writes report.md, table.txt, table.csv and google_benchmark.json into the folder; returns
// report.md's path.
std::string write_reports(const std::string& folder, const Environment& environment,
                          const StoredCells& cells, const CsvColumns* columns = nullptr);

// "41 ok, 3 crashed, 2 not run; 12 of them ran out of memory".
[[nodiscard]] std::string count_by_status(const std::vector<CellResult>& cells,
                                          std::size_t planned_count);

// What the figures of a run on `device` are made of, in one line.
[[nodiscard]] std::string figures_note(const Environment& environment);

// The line to paste, where there is one, and the answer in one sentence.
void print_answer(const std::vector<CellResult>& cells, std::FILE* people);

// Says below an answer which keys of a generated workload were not given and decide it.
void print_presets(const std::string& workload, std::FILE* people);

}  // namespace allocmark

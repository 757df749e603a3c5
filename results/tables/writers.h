// Everything that turns results into text for people or for other programs, one .cc file per
// format: table.cc, markdown.cc, csv.cc, google_benchmark.cc. Flows in: results; flows out: one
// text, with a newline at its end. Neither times nor checks allocators. results/DEFINITIONS.md
// defines every number that is printed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "results/cell_source.h"
#include "results/schema.h"

namespace allocmark {

// Of table.txt, whatever terminal it was made on; it is wider where all columns need more.
inline constexpr std::size_t kFileWidth = 160;
// Below this a table is wider than its terminal.
inline constexpr std::size_t kWidthMin = 40;

// Where a text goes that is made a piece at a time.
using TextSink = std::function<void(std::string_view)>;

struct TableStyle {
  std::size_t width = kFileWidth;  // of every line, in columns
  bool all = true;                 // columns are kept, however wide the lines get
  // Where all columns are, for the line that says which ones were left out: "DIR/table.txt".
  std::string all_columns = "table.txt";
};

// For a terminal: one block per workload, device, capacity, seed and OOM policy; columns aligned;
// no escape sequences. Columns that do not fit are left out, the last ones of Column::place first,
// and a line says which. Ends with the answer (answer.h). No cells give a line that says so.
[[nodiscard]] std::string render_table(std::span<const CellResult> cells,
                                       const TableStyle& style = {});

// report.md: what ran, how to read it, the tables, the answer, OOM causes, warnings, and `command`,
// which is the shell command that runs it again (already quoted).
[[nodiscard]] std::string render_markdown(const Environment& environment,
                                          std::span<const CellResult> cells,
                                          std::string_view command);

// One row per cell with every stored field and the derived ones, lists and counters flattened into
// columns of their own (RFC 4180, but rows end in a newline only). What is not known is an empty
// field. Made a piece at a time, with one cell in memory: cells are read twice.
void write_csv(const CellSource& cells, const TextSink& sink);

// The same where cells are read for something else anyway: first all are noted, then each is made
// a row.
class CsvColumns {
 public:
  CsvColumns();
  void note(const CellResult& cell);
  [[nodiscard]] std::string header() const;
  // Of a cell that was noted.
  [[nodiscard]] std::string row(const CellResult& cell) const;

 private:
  // Columns of every cell come first, in a fixed order; those of some cells follow in the order in
  // which they appear.
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> index_by_name_;
};

// Google Benchmark's JSON: per cell one entry for allocate and one for deallocate, for compare.py
// and CI services. Made a piece at a time as well.
void write_google_benchmark(const Environment& environment, const CellSource& cells,
                            const TextSink& sink);

}  // namespace allocmark

// A run's file, results.jsonl: the environment on the first line, then one cell per line, in the
// order in which cells ended. Flows in: lines on disk, or results to add; flows out: the other one.
// A cell that was run again is added again, and the last line of a cell counts. Neither times nor
// checks allocators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/stored_text.h"
#include "results/cell_summary.h"
#include "results/schema.h"

namespace allocmark {

// A cell's line has some KiB; with a histogram per pass some hundred.
inline constexpr std::size_t kLineBytesMax = std::size_t{16} << 20;

// Where a line lies in its file.
struct LinePlace {
  std::uint64_t begin_bytes = 0, size_bytes = 0;  // without its newline
  std::uint64_t number = 0;                       // 1-based
};

struct RunFile {
  Environment environment;
  std::vector<CellResult>
      cells;  // one per key: the last line of each, in the order of first appearance
  std::vector<CellOutline> outlines;      // of CellDetail::Outline, instead of the cells
  std::vector<LinePlace> places;          // of these cells' lines, in the same order
  std::uint64_t replaced_line_count = 0;  // lines of cells that a later line replaced
  std::vector<LinePlace> replaced_parts;  // those of them that were a cell's result so far
  bool torn = false;                      // the last line was cut short; it is not among the cells
  std::uint64_t torn_line = 0;            // its 1-based number; 0 where the file is whole
  std::uint64_t whole_bytes = 0;          // length of the file up to the end of its last whole line
  bool newline_missing = false;           // the last line is whole but for its newline
  // MINOR versions of the schema that lines state, the environment's among them.
  std::uint32_t oldest_minor = 0, newest_minor = 0;
};

// Reads all of it, line by line. Throws FileError where the file cannot be read, and UsageError
// with file and line where it is empty, does not begin with an environment, or has a corrupt line.
// Only a last line without its newline that is no whole JSON object is taken as torn, which is what
// a killed run leaves.
// With CellDetail::Summary cells are kept as summaries (results/cell_summary.h), a tenth as large,
// and with Outline only what names them: cell_source.h reads them whole, one at a time.
enum class CellDetail : std::uint8_t { Whole, Summary, Outline };
// Sees each line's cell whole, those that a later line replaces as well.
using WholeCellWatcher = std::function<void(const CellResult&)>;
[[nodiscard]] RunFile read_run_file(const std::string& path, CellDetail detail = CellDetail::Whole,
                                    const WholeCellWatcher& watcher = {});
// The same of what is read on to its end; `path` is what messages call it.
[[nodiscard]] RunFile parse_run_file(const ByteSource& next, const std::string& path,
                                     CellDetail detail = CellDetail::Whole,
                                     const WholeCellWatcher& watcher = {});

// Takes lines out of a run's file that held a cell's result so far (passes_to_come) and that a
// later line replaced, or that of a workload before it was edited. The file is replaced whole or
// not at all; nobody may be adding to it.
void drop_replaced_parts(const std::string& path);

// Adds lines to a run's file; each is handed to the operating system before append returns, so that
// a later crash of this process loses nothing. Not for several writers at once: only the parent
// process writes.
class RunFileWriter {
 public:
  // Creates the file, which must not exist or be empty, and writes its first line.
  static RunFileWriter create(const std::string& path, const Environment& environment);

  // Opens a file that read_run_file accepts, cuts off a torn last line, and adds after it.
  static RunFileWriter resume(const std::string& path);

  // Throws FileError where the line could not be written whole (disk full); what was whole
  // before stays whole.
  void append(const CellResult& cell);

 private:
  explicit RunFileWriter(LineFile file) : file_(std::move(file)) {}

  LineFile file_;
};

}  // namespace allocmark

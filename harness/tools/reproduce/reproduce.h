// A published run against the same cells run here. The run flows in; which exact numbers agree and
// which timed ones lie in their interval flows out. The cells it starts are timed; it times nothing
// itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "harness/core/bundled/made_again.h"
#include "harness/core/run/run_folder.h"
#include "results/cell_source.h"
#include "results/schema.h"

namespace allocmark {

// A run that somebody published, as it is to be run again.
struct PublishedRun {
  Environment environment = {};
  std::vector<CellResult> cells = {};  // as summaries, in the order of the file
  CellSource whole = {};               // the same cells
  RunManifest plan = {};               // of a results file alone: as its cells tell
  std::vector<std::string> notes = {};
  bool complete = true;  // false: cells are missing that were planned, or the file was cut short
};

// Of a bundle, a run's folder or a results file. Throws FileError where there is no such path.
// Throws UsageError where it is neither of the three, or damaged, or of another MAJOR version of
// the schema, or without cells.
[[nodiscard]] PublishedRun read_published(const std::string& path);

enum class CellVerdict : std::uint8_t {
  Agrees,   // in every exact number
  Differs,  // in one at least
  NotRun    // here, and the reason says why
};
[[nodiscard]] std::string_view to_string(CellVerdict verdict);

// A time that the published run says where to expect again, at 95 %.
struct TimedNumberAgain {
  std::string name = {};  // "allocate_latency_ns_p50"
  double low_ns = 0, high_ns = 0;
  double again_ns = 0;
  bool inside = false;
};

struct CellAgain {
  CellKey key = {};
  CellVerdict verdict = CellVerdict::NotRun;
  std::string reason = {};
  std::vector<ExactAgain> exact = {};
  std::vector<TimedNumberAgain> timed = {};  // those that have an interval and were measured again
};

struct Reproduction {
  std::vector<CellAgain> cells = {};  // in the order of the published run
  std::vector<std::string> notes = {};
  bool complete = true;  // of the published run itself
};

struct ReproduceOptions {
  std::string program_path = {};
  std::string device = {};      // on which its cells run here; empty: on the run's own
  std::string folder = {};      // where the run of here is kept; empty: nowhere
  std::uint32_t job_count = 0;  // 0: the device's default
  bool trusted = false;         // trace files and libraries that its cells name are opened
};

// Runs the cells that can be run here. What stands against the others is their reason.
[[nodiscard]] Reproduction reproduce(const PublishedRun& run, const ReproduceOptions& options);

// What holds of two results of one cell.
[[nodiscard]] CellAgain judge_cell(const CellResult& stored, const CellResult& again);

[[nodiscard]] std::string render_reproduction(const Reproduction& reproduction);
[[nodiscard]] std::string render_reproduction_json(const Reproduction& reproduction);
// Regression where a cell differs, else CellsIncomplete where one was not run or is missing.
[[nodiscard]] ExitCode exit_code_of(const Reproduction& reproduction);

}  // namespace allocmark

// The reports that scripts/report makes of a run: the page for people, LaTeX tables, SVG charts;
// with the verdicts of other runs it is held against. A run's folder flows in; lines that say what
// was written flow out.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/stored_text.h"
#include "harness/shell/pages/run_output.h"
#include "results/run_file.h"
#include "results/schema.h"

namespace allocmark {

struct PagesRequest {
  std::string folder = {};                  // a results folder
  std::vector<std::string> baselines = {};  // runs that it is compared with
  std::string policy = {};                  // files, as of 'compare'; empty = none
  std::string calibration = {};
  std::string latex = {};  // LaTeX tables go there; empty = none
  std::string svg = {};    // a folder for charts; empty = none
  bool html = true;        // report.html
};

// A run that was read already, as its file has it.
struct PagedRun {
  const Environment& environment;  // with what else went on
  const StoredCells& cells;
  std::vector<std::string> notes = {};
};

// What a reader must know about the file itself.
[[nodiscard]] std::vector<std::string> notes_of(const RunFile& file);

// The facts alone (results/facts/report_facts.h), of the same request.
[[nodiscard]] StoredText page_facts(const PagesRequest& request);
[[nodiscard]] StoredText page_facts(const PagesRequest& request, const PagedRun& run);

// Throws FileError where something cannot be read or written, and UsageError for a policy or
// calibration that does not fit.
void write_pages(const PagesRequest& request);
void write_pages(const PagesRequest& request, const PagedRun& run);

// The same at the end of a run, which is complete without its page: an error is one line on stderr.
// What was written is said on `people`.
void write_pages_of_run(const PagesRequest& request, std::FILE* people);

}  // namespace allocmark

// The files that 'allocmark report' makes from results alone, as text: what a run's folder holds,
// and what a check of a bundle makes again. Results flow in; names and texts flow out.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "results/cell_source.h"
#include "results/schema.h"
#include "results/tables/writers.h"
#include "workloads/trace/archive.h"

namespace allocmark {

// Where the file of this name goes.
using SinkOfFile = std::function<TextSink(const std::string& name)>;

// report.md, table.txt, table.csv and google_benchmark.json. `cells` may be summaries; `whole` has
// the same cells in the same order.
void make_report_files(const Environment& environment, std::span<const CellResult> cells,
                       const CellSource& whole, const SinkOfFile& sink_of,
                       const CsvColumns* known_columns = nullptr);

// A command line as a shell takes it.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& argv);

}  // namespace allocmark

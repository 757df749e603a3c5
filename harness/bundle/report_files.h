// The files that 'allocmark report' makes from results alone, as text: what a run's folder holds,
// and what a check of a bundle makes again. Results flow in; names and texts flow out.
#pragma once

#include <string>
#include <vector>

#include "harness/bundle/archive.h"
#include "results/schema.h"

namespace allocmark {

// report.md, table.txt, table.csv and google_benchmark.json.
[[nodiscard]] std::vector<ArchiveFile> report_files(const Environment& environment,
                                                    const std::vector<CellResult>& cells);

// A command line as a shell takes it.
[[nodiscard]] std::string shell_command(const std::vector<std::string>& argv);

}  // namespace allocmark

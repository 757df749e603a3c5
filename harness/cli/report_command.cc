// 'allocmark report DIR': the report of a results folder, made again from its results.jsonl.
#include <cstdio>

#include <fmt/format.h>
#include "harness/cli/commands.h"
#include "harness/cli/report_pages.h"
#include "harness/cli/run_output.h"
#include "harness/conditions.h"
#include "harness/run_folder.h"

namespace allocmark {

ExitCode report_command(const ReportCommand& command) {
  const PagesRequest pages{.folder = command.folder,
                           .baselines = command.baselines,
                           .policy = command.policy,
                           .calibration = command.calibration,
                           .latex = command.latex,
                           .svg = command.svg,
                           .html = command.html};
  if (command.format == "facts") {
    fmt::print("{}", page_facts(pages));
    return ExitCode::Pass;
  }
  RunFile file = read_run_file(results_path(command.folder));
  if (!command.format.empty()) {
    fmt::print("{}", render_results(command.format, file.environment, file.cells));
    return ExitCode::Pass;
  }
  add_stored_conditions(command.folder, &file.environment);
  const std::string report = write_reports(command.folder, file.environment, file.cells);
  fmt::print("cells: {}\nreport: {}\n", count_by_status(file.cells, file.cells.size()), report);
  std::fflush(stdout);
  write_pages(pages);
  print_answer(file.cells, stdout);
  return ExitCode::Pass;
}

}  // namespace allocmark

// 'allocmark report DIR': the report of a results folder, made again from its results.jsonl, or of
// an A/B run, made again from its rounds.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include "base/error.h"
#include "base/input_file.h"
#include "base/output_file.h"
#include "base/shell_text.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/output_path.h"
#include "harness/shell/pages/compare_input.h"
#include "harness/shell/pages/comparison_options.h"
#include "harness/shell/pages/interleaved_session.h"
#include "harness/shell/pages/report_pages.h"
#include "harness/shell/pages/run_output.h"
#include "harness/shell/registry.h"
#include "harness/shell/terminal.h"
#include "results/compare/compare_writers.h"
#include "results/compare/interleaved.h"

namespace allocmark {

namespace {

struct ReportCommand {
  std::string folder;
  std::string format;                  // empty = write report.md and its companions into the folder
  std::string latex;                   // LaTeX tables go there; empty = none
  bool force = false;                  // replace that file
  std::string svg;                     // a folder for charts; empty = none
  bool html = true;                    // report.html, where python3 and its packages are there
  std::vector<std::string> baselines;  // runs to hold it against
  std::string policy, calibration;     // files, as of 'compare'; empty = none
};

void add_report(CLI::App* app, ReportCommand* command) {
  app->add_option("folder", command->folder, "A folder that 'allocmark run' wrote")
      ->required()
      ->type_name("DIR");
  app->add_option("--format", command->format,
                  "Print this (table, markdown, csv, json, jsonl; facts: what the page is made "
                  "from) instead "
                  "of writing the report files")
      ->check(CLI::IsMember({"table", "markdown", "csv", "json", "jsonl", "facts"}))
      ->type_name("F");
  add_comparison(app, &command->baselines, &command->policy, &command->calibration);
  app->add_option("--latex", command->latex, "Write LaTeX tables there as well")->type_name("FILE");
  add_force(app, &command->force);
  app->add_option("--svg", command->svg, "Write the charts as SVG files into this folder as well")
      ->type_name("DIR");
  app->add_flag_callback(
      "--no-html", [command] { command->html = false; }, "Do not make report.html");
}

namespace fs = std::filesystem;

// The page is made of the second side; who gave the A/B run's folder finds it there.
void copy_page(const std::string& side, const std::string& folder,
               std::optional<fs::file_time_type> before) {
  const fs::path page = fs::path(side) / "report.html";
  std::error_code error;
  const fs::file_time_type now = fs::last_write_time(page, error);
  if (error || (before && now == *before)) return;
  const std::string copy = (fs::path(folder) / "report.html").string();
  write_file(copy, read_file(page.string(), kPageInput));
  fmt::print("page of the comparison: {}\n", copy);
}

// The folder of an A/B run: the verdicts of its rounds, both sides' reports, and the page of side B
// held against side A.
ExitCode report_sides(const ReportCommand& command, PagesRequest pages) {
  const InterleavedRun run = read_interleaved(command.folder);
  pages.folder = side_folder(command.folder, run.plan, 1);
  pages.baselines.insert(pages.baselines.begin(), command.folder);
  if (command.format == "facts") {
    page_facts(pages).each_piece([](std::string_view piece) { fmt::print("{}", piece); });
    return ExitCode::Pass;
  }
  const Comparison comparison = compare_interleaved(run, read_policy(command.policy, ""));
  if (command.format == "json") {
    write_comparison_json(comparison, [](std::string_view piece) { fmt::print("{}", piece); });
    return ExitCode::Pass;
  }
  print_fitted(stdout, render_comparison(comparison, Detail::Findings));
  if (command.format == "table") return ExitCode::Pass;
  const fs::path folder(command.folder);
  write_side_reports(command.folder, run.plan);
  // What is there was judged by the policy of the run, which is not stored.
  if (!command.policy.empty() || !fs::exists(folder / "comparison.json")) {
    write_comparison(command.folder, comparison);
  }
  fmt::print("comparison: {}\n", (folder / "comparison.txt").string());
  for (std::size_t side = 0; side < kSideCount; ++side) {
    const fs::path path = side_folder(command.folder, run.plan, side);
    fmt::print("report of side {}: {}\n", run.plan.sides.at(side).label,
               (path / "report.md").string());
  }
  std::fflush(stdout);
  std::error_code error;
  const fs::file_time_type time =
      fs::last_write_time(fs::path(pages.folder) / "report.html", error);
  write_pages(pages);
  copy_page(pages.folder, command.folder, error ? std::nullopt : std::optional(time));
  return ExitCode::Pass;
}

}  // namespace

ExitCode report_command(const ReportCommand& command) {
  require_run_folder(command.folder);
  if (!command.latex.empty()) check_output_file(command.latex, command.force, "--latex");
  if (!command.svg.empty()) make_output_folder(command.svg, "--svg");
  const PagesRequest pages{.folder = command.folder,
                           .baselines = command.baselines,
                           .policy = command.policy,
                           .calibration = command.calibration,
                           .latex = command.latex,
                           .svg = command.svg,
                           .html = command.html};
  if (is_interleaved(command.folder)) {
    if (command.format == "csv" || command.format == "markdown") {
      throw UsageError({.what = "the report of an A/B run is a comparison",
                        .where = "--format",
                        .wanted = "table, json or facts",
                        .got = command.format,
                        .next = "for one side: allocmark report " +
                                shell_word(command.folder + "/B") + " --format " + command.format});
    }
    return report_sides(command, pages);
  }
  if (command.format == "facts") {
    page_facts(pages).each_piece([](std::string_view piece) { fmt::print("{}", piece); });
    return ExitCode::Pass;
  }
  CsvColumns columns;
  WholeCellWatcher watcher;
  if (command.format.empty()) watcher = [&](const CellResult& cell) { columns.note(cell); };
  RunFile file = read_run_file(results_path(command.folder), CellDetail::Summary, watcher);
  const StoredCells cells = stored_cells(command.folder, &file);
  if (!command.format.empty()) {
    print_results(command.format, command.folder, file.environment, cells);
    return ExitCode::Pass;
  }
  add_stored_conditions(command.folder, &file.environment);
  // Results that a later line replaced may have had columns of their own.
  const std::string report = write_reports(command.folder, file.environment, cells,
                                           file.replaced_line_count == 0 ? &columns : nullptr);
  fmt::print("cells: {}\nreport: {}\n", count_by_status(cells.summaries, cells.summaries.size()),
             report);
  std::fflush(stdout);
  write_pages(pages, {.environment = file.environment, .cells = cells, .notes = notes_of(file)});
  print_answer(cells.summaries, stdout);
  return ExitCode::Pass;
}

extern const CommandEntry kReportCommand;
constinit const CommandEntry kReportCommand{
    "report", "Make the report of a results folder (again)",
    [](CLI::App* app) { return bind_command(app, add_report, report_command); }};

}  // namespace allocmark

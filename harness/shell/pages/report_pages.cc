// See report_pages.h.
#include "harness/shell/pages/report_pages.h"

#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/shell_text.h"
#include "harness/core/run/conditions.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/html_report.h"
#include "harness/shell/pages/compare_input.h"
#include "harness/shell/pages/interleaved_session.h"
#include "results/compare/compare.h"
#include "results/compare/interleaved.h"
#include "results/facts/report_facts.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

ReportedComparison held_against(const std::string& path, const std::string& folder,
                                const ComparePolicy& policy,
                                const std::optional<Calibration>& calibration) {
  ReportedComparison held{.path = path, .base = read_side("BASE", path)};
  held.comparison = compare_runs(held.base, read_side("NEW", folder), policy, calibration);
  return held;
}

// The baseline is the folder of an A/B run and the report is of its second side: the verdicts are
// those of the rounds.
ReportedComparison turns_of(const std::string& path, const std::string& folder,
                            const ComparePolicy& policy) {
  const InterleavedRun run = read_interleaved(path);
  const std::string second = side_folder(path, run.plan, 1);
  std::error_code error;
  if (!fs::equivalent(second, folder, error) || error) {
    throw UsageError({.what = "the baseline is an A/B run, which is compared with itself only",
                      .where = "--baseline " + path,
                      .wanted = "its side " + run.plan.sides.back().label,
                      .got = folder,
                      .next = "allocmark report " + shell_word(path)});
  }
  return {.path = path,
          .base = read_side("BASE", results_path(side_folder(path, run.plan, 0))),
          .comparison = compare_interleaved(run, policy)};
}

// Of what a program said as it failed.
std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

void make_pages(const PagesRequest& request, const PagedRun* run, std::FILE* people) {
  if (!request.html && request.latex.empty() && request.svg.empty()) return;
  const HtmlOutcome outcome =
      write_html_report({.folder = request.folder,
                         .facts = run == nullptr ? page_facts(request) : page_facts(request, *run),
                         .latex = request.latex,
                         .svg = request.svg,
                         .html = request.html});
  fmt::print(outcome.made ? people : stderr, "{}", outcome.text);
  std::fflush(people);
}

}  // namespace

std::vector<std::string> notes_of(const RunFile& file) {
  std::vector<std::string> notes;
  if (file.torn) {
    notes.emplace_back(
        "The last line of results.jsonl is incomplete and was left out: the run was broken off, or "
        "is still going on.");
  }
  if (file.replaced_line_count > 0) {
    notes.push_back(fmt::format("{} cells were run again; only the last result of each counts.",
                                file.replaced_line_count));
  }
  return notes;
}

StoredText page_facts(const PagesRequest& request) {
  RunFile file = read_run_file(results_path(request.folder), CellDetail::Summary);
  add_stored_conditions(request.folder, &file.environment);
  const StoredCells cells = stored_cells(request.folder, &file);
  return page_facts(request,
                    {.environment = file.environment, .cells = cells, .notes = notes_of(file)});
}

StoredText page_facts(const PagesRequest& request, const PagedRun& run) {
  const ComparePolicy policy = read_policy(request.policy, "");
  std::optional<Calibration> calibration;
  if (!request.calibration.empty()) {
    calibration = calibration_from_json(read_file(request.calibration, kCalibrationInput),
                                        request.calibration);
  }
  std::vector<ReportedComparison> comparisons;
  for (const std::string& path : request.baselines) {
    comparisons.push_back(is_interleaved(path)
                              ? turns_of(path, request.folder, policy)
                              : held_against(path, request.folder, policy, calibration));
  }
  const StoredCells& cells = run.cells;
  const bool whole_run = !request.latex.empty() || !request.svg.empty();
  return render_report_facts(
      {.environment = run.environment,
       .cells = cells.summaries,
       .whole = cells.whole,
       .comparisons = comparisons,
       .notes = run.notes,
       .cell_count_max = whole_run ? cells.summaries.size() : kPageCellsMax});
}

void write_pages(const PagesRequest& request) { make_pages(request, nullptr, stdout); }

void write_pages(const PagesRequest& request, const PagedRun& run) {
  make_pages(request, &run, stdout);
}

void write_pages_of_run(const PagesRequest& request, std::FILE* people) {
  try {
    make_pages(request, nullptr, people);
  } catch (const Error& error) {
    const ErrorText& text = error.text();
    fmt::print(stderr, "report.html: not made: {}: {}\n", text.what,
               last_line(text.got.empty() ? text.next : text.got));
  }
}

}  // namespace allocmark

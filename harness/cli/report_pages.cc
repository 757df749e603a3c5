// See report_pages.h.
#include "harness/cli/report_pages.h"

#include <optional>
#include <utility>

#include "harness/cli/html_report.h"
#include "harness/cli/run_side.h"
#include "harness/run_folder.h"
#include "results/compare.h"
#include "results/report_facts.h"

namespace allocmark {

std::string page_facts(const PagesRequest& request) {
  ComparePolicy policy;
  if (!request.policy.empty()) policy = policy_from_json(read_file(request.policy), request.policy);
  std::optional<Calibration> calibration;
  if (!request.calibration.empty()) {
    calibration = calibration_from_json(read_file(request.calibration), request.calibration);
  }
  std::vector<ReportedComparison> comparisons;
  for (const std::string& path : request.baselines) {
    const RunSide base = read_side("BASE", path);
    const RunSide now = read_side("NEW", request.folder);
    Comparison comparison = compare_runs(base, now, policy, calibration);
    comparisons.push_back(
        {.path = path, .base_cells = base.file.cells, .comparison = std::move(comparison)});
  }
  const RunFile file = read_run_file(results_path(request.folder));
  return render_report_facts(file.cells, comparisons);
}

std::string write_pages(const PagesRequest& request) {
  if (!request.html && request.latex.empty() && request.svg.empty()) return "";
  return write_html_report({.folder = request.folder,
                            .facts = page_facts(request),
                            .latex = request.latex,
                            .svg = request.svg,
                            .html = request.html});
}

}  // namespace allocmark

// Reads a published run (reproduce.h).
#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include <fmt/format.h>
#include "base/error.h"
#include "harness/core/bundled/bundle_files.h"
#include "harness/tools/reproduce/reproduce.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kResults = "results.jsonl";

// Nothing tells whether rules were checked but what only a check gives.
RunManifest plan_of_cells(const std::vector<CellResult>& cells) {
  constexpr std::uint64_t kTimeoutS = 600;  // the default of 'run'
  RunManifest plan;
  plan.title = "a results file";
  plan.timeout_s = kTimeoutS;
  plan.verify = VerifyLevel::Off;
  for (const CellResult& cell : cells) {
    plan.cells.push_back(cell.key);
    if (cell.contents_oom_count || cell.unordered_reuse_count) plan.verify = VerifyLevel::Edges;
  }
  return plan;
}

void take_cells(RunFile file, PublishedRun* run) {
  run->environment = std::move(file.environment);
  run->cells = std::move(file.cells);
  if (!file.torn) return;
  run->complete = false;
  run->notes.push_back(
      fmt::format("line {} of the results is cut short: its cell is left out", file.torn_line));
}

void read_results(const std::string& path, PublishedRun* run) {
  RunFile file = read_run_file(path, CellDetail::Summary);
  run->whole = cells_of_file(path, file.places);
  take_cells(std::move(file), run);
  run->plan = plan_of_cells(run->cells);
}

void require_sound(const OpenedBundle& bundle, const std::string& path) {
  if (!bundle.damage.empty()) {
    throw UsageError({.what = "the bundle is damaged",
                      .where = path,
                      .wanted = "an archive as it was published",
                      .got = bundle.damage,
                      .next = "fetch it again; 'allocmark check' tells what is left of it"});
  }
  if (bundle.files.contains(kResults)) return;
  throw UsageError({.what = "there are no results in it",
                    .where = path,
                    .wanted = fmt::format("{}{}", kBundleFolder, kResults),
                    .got = fmt::format("{} other files", bundle.files.size()),
                    .next = "name a bundle, a run's folder or its results.jsonl"});
}

void read_files(const std::string& path, PublishedRun* run) {
  const OpenedBundle bundle = open_bundle(read_bundle(path));
  require_sound(bundle, path);
  RunFile file = bundled_run(bundle.files, "", CellDetail::Summary);
  run->whole = cells_of_text(bundle.files.at(kResults), kResults, file.places);
  take_cells(std::move(file), run);
  const auto plan = bundle.files.find("plan.json");
  run->plan = plan == bundle.files.end() ? plan_of_cells(run->cells)
                                         : manifest_from_json(plan->second.whole(), plan->first);
  if (bundle.files.contains("base.results.jsonl")) {
    run->notes.emplace_back(
        "it is compared with another run, which is not run here: reproduce that one's own bundle");
  }
}

void count_missing(PublishedRun* run) {
  std::set<std::string> there;
  for (const CellResult& cell : run->cells) there.insert(cell.key.id());
  const auto missing_count = std::ranges::count_if(
      run->plan.cells, [&](const CellKey& key) { return !there.contains(key.id()); });
  if (missing_count == 0) return;
  run->complete = false;
  run->notes.push_back(
      fmt::format("{} of {} planned cells have no results: there is nothing to "
                  "hold them against",
                  missing_count, run->plan.cells.size()));
}

}  // namespace

PublishedRun read_published(const std::string& path) {
  PublishedRun run;
  std::error_code ignored;
  const bool is_results =
      path.find(".jsonl") != std::string::npos && fs::is_regular_file(path, ignored);
  is_results ? read_results(path, &run) : read_files(path, &run);
  count_missing(&run);
  if (!run.cells.empty()) return run;
  throw UsageError({.what = "there are no cells in it",
                    .where = path,
                    .wanted = "the results of a run",
                    .got = "an environment alone"});
}

}  // namespace allocmark

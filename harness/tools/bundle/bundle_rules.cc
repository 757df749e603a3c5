// What each rule looks at. A rule that finds nothing is kept.
#include "harness/tools/bundle/bundle_rules.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "base/sha256.h"
#include "results/columns/columns.h"
#include "results/derived.h"

namespace allocmark {

std::string name_of(const CellKey& key) {
  return fmt::format("{} [{}] {} {} seed {}", key.allocator, conf_or_unset(key), key.workload,
                     key.capacity, key.seed);
}

bool needs_run(const BundleView& view, CheckedRule& rule) {
  if (view.run.file) return true;
  not_checked(rule, "results.jsonl cannot be used: " + view.run.problem);
  return false;
}

void broken(CheckedRule& rule, std::string finding) {
  rule.outcome = RuleOutcome::Broken;
  rule.findings.push_back(std::move(finding));
}

void not_checked(CheckedRule& rule, std::string finding) {
  if (rule.outcome == RuleOutcome::Kept) rule.outcome = RuleOutcome::NotChecked;
  rule.findings.push_back(std::move(finding));
}

namespace {

constexpr const char* kRequired[] = {
    "README.md", kBundleManifest, kBundleHashes,   "google_benchmark.json",
    "plan.json", "report.md",     "results.jsonl", "table.csv",
    "table.txt"};

constexpr const char* kOptional[] = {"report.html",      "conditions.json", "base.results.jsonl",
                                     "base.plan.json",   "policy.json",     "base.conditions.json",
                                     "calibration.json", kBundleTurnsPlan,  kBundleRounds,
                                     kBundleComparison};

// "<hash>  <name>" per line.
std::map<std::string, std::string> listed_hashes(const BundleView& view) {
  std::map<std::string, std::string> hashes;
  const auto file = view.bundle.files.find(kBundleHashes);
  if (file == view.bundle.files.end()) return hashes;
  std::istringstream lines(file->second.whole());
  for (std::string line; std::getline(lines, line);) {
    const bool sound = line.size() > 66 && line.substr(64, 2) == "  ";
    // What is no such line stands under a name that no file has.
    hashes[sound ? line.substr(66) : "'" + line + "'"] = sound ? line.substr(0, 64) : "";
  }
  return hashes;
}

void archive_whole(const BundleView& view, CheckedRule& rule) {
  if (!view.bundle.damage.empty()) broken(rule, view.bundle.damage);
}

void names_safe(const BundleView& view, CheckedRule& rule) {
  for (const std::string& name : view.bundle.unsafe_names) broken(rule, name);
}

void files_complete(const BundleView& view, CheckedRule& rule) {
  std::set<std::string> wanted(std::begin(kRequired), std::end(kRequired));
  for (const auto& [name, hash] : listed_hashes(view)) {
    if (!hash.empty()) wanted.insert(name);
  }
  if (view.base.there) wanted.insert(kBundleComparison);
  if (view.bundle.files.contains(kBundleComparison)) wanted.insert("base.results.jsonl");
  if (view.bundle.files.contains(kBundleRounds)) wanted.insert(kBundleTurnsPlan);
  if (view.bundle.files.contains(kBundleTurnsPlan)) wanted.insert(kBundleRounds);
  if (view.run.plan && view.run.plan->timelines && view.run.file) {
    for (const CellResult& cell : view.run.file->cells) {
      if (is_measured(cell)) wanted.insert(timeline_name(cell.key));
    }
  }
  for (const std::string& name : wanted) {
    if (!view.bundle.files.contains(name)) broken(rule, name + " is missing");
  }
}

// "timelines/CELL_ID.json" of a cell that there is.
bool is_timeline(const BundleView& view, const std::string& name) {
  if (!view.run.file) return name.starts_with("timelines/");
  return std::ranges::any_of(view.run.file->cells, [&](const CellResult& cell) {
    return name == timeline_name(cell.key);
  });
}

void files_known(const BundleView& view, CheckedRule& rule) {
  for (const std::string& finding : view.bundle.too_large) broken(rule, finding);
  const auto hashes = listed_hashes(view);
  for (const auto& [name, text] : view.bundle.files) {
    const bool named =
        std::ranges::count(kRequired, name) + std::ranges::count(kOptional, name) > 0;
    if (!named && !is_timeline(view, name)) broken(rule, name + " is no file of a bundle");
    if (name != kBundleHashes && !hashes.contains(name)) {
      broken(rule, name + " is not in SHA256SUMS");
    }
  }
}

void hashes_match(const BundleView& view, CheckedRule& rule) {
  const auto hashes = listed_hashes(view);
  if (hashes.empty()) return broken(rule, "SHA256SUMS lists no file");
  for (const auto& [name, hash] : hashes) {
    const auto file = view.bundle.files.find(name);
    if (hash.empty()) {
      broken(rule, "SHA256SUMS has a line that lists no file: " + name);
    } else if (file != view.bundle.files.end() && sha256_of(file->second.bytes()) != hash) {
      broken(rule, name + " is not the file that was bundled");
    }
  }
}

void page_of_results(const BundleView& view, CheckedRule& rule) {
  const auto page = view.bundle.files.find("report.html");
  const auto results = view.bundle.files.find("results.jsonl");
  if (page == view.bundle.files.end()) {
    rule.outcome = RuleOutcome::NotApplicable;
  } else if (results == view.bundle.files.end() ||
             page_results_hash(page->second) != sha256_of(results->second.bytes())) {
    broken(rule, "report.html was made from other results");
  }
}

constexpr BundleRule kRules[] = {
    {"archive-whole", "Does the archive unpack to its end?", archive_whole},
    {"names-safe", "Do all names stay within the bundle?", names_safe},
    {"files-complete", "Is every file there that must be?", files_complete},
    {"files-known", "Is every file listed?", files_known},
    {"hashes-match", "Is every file the one that was bundled?", hashes_match},
    {"results-whole", "Are the raw results whole and valid?", results_whole},
    {"plan-complete", "Does every planned cell have numbers?", plan_complete},
    {"plan-kept", "Was nothing else run than planned?", plan_kept},
    {"names-known", "Are devices, allocators and config strings known here?", names_known},
    {"work-same", "Did all cells of a workload do the same work?", work_same},
    {"traces-regenerated", "Do the workloads still give these events?", traces_regenerated},
    {"cells-consistent", "Do the numbers of each cell belong together?", cells_consistent},
    {"samples-enough", "Does every quantile have the samples for a claim?", samples_enough},
    {"environment-fit", "Was it built and run so that times mean something?", environment_fit},
    {"machine-quiet", "Was the machine quiet, or do the passes agree?", machine_quiet},
    {"cells-simulated", "Does the simulated GPU give these numbers again?", cells_simulated},
    {"texts-unchanged", "Are README.md and bundle.json as they were made?", texts_unchanged},
    {"tables-recomputed", "Do the raw results give these tables?", tables_recomputed},
    {"page-of-results", "Is report.html made from these results?", page_of_results},
    {"verdicts-recomputed", "Do the raw results give these verdicts?", verdicts_recomputed},
};

StoredRun stored_run(const BundleFiles& files, const std::string& prefix) {
  StoredRun run{.prefix = prefix, .problem = kNotThere, .plan_problem = kNotThere};
  const auto results = files.find(prefix + "results.jsonl");
  run.there = results != files.end();
  try {
    if (run.there) {
      run.file = bundled_run(files, prefix, CellDetail::Summary);
      run.whole = cells_of_text(results->second, results->first, run.file->places);
    }
  } catch (const Error& error) {
    run.problem = error.what();
  }
  try {
    const auto plan = files.find(prefix + "plan.json");
    if (plan != files.end()) run.plan = manifest_from_json(plan->second.whole(), plan->first);
  } catch (const Error& error) {
    run.plan_problem = error.what();
  }
  return run;
}

std::string made_by(const BundleFiles& files) {
  const auto manifest = files.find(kBundleManifest);
  if (manifest == files.end()) return "";
  const nlohmann::json json = parse_json(manifest->second.whole());
  const nlohmann::json said =
      json.is_object() ? json.value("made_by", nlohmann::json()) : nlohmann::json();
  return said.is_string() ? said.get<std::string>() : "";
}

}  // namespace

BundleView view_bundle(TarContents contents, const CheckOptions& options) {
  BundleView view{.bundle = open_bundle(std::move(contents)), .options = options};
  view.run = stored_run(view.bundle.files, "");
  view.base = stored_run(view.bundle.files, "base.");
  view.base.label = "baseline: ";
  view.made_by = made_by(view.bundle.files);
  try {
    const bool has_turns =
        view.bundle.files.contains(kBundleRounds) && view.bundle.files.contains(kBundleTurnsPlan);
    if (has_turns && view.run.file && view.base.file) view.turns = bundled_turns(view.bundle.files);
    if (view.turns && view.turns->torn)
      view.turns_problem = "the last line of rounds.jsonl is cut short";
  } catch (const Error& error) {
    view.turns_problem = error.what();
  }
  return view;
}

std::span<const BundleRule> bundle_rules() { return kRules; }

}  // namespace allocmark

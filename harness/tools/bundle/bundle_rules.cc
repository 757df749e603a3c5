// What each rule looks at. A rule that finds nothing is kept.
#include "harness/tools/bundle/bundle_rules.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/json_text.h"
#include "base/sha256.h"
#include "results/cell_check.h"
#include "results/columns/columns.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {

std::string name_of(const CellKey& key) {
  return fmt::format("{} [{}] {} {} seed {}", key.allocator, conf_or_unset(key), key.workload,
                     key.capacity, key.seed);
}

bool needs_run(const BundleView& view, CheckedRule& rule) {
  if (view.run) return true;
  rule.outcome = RuleOutcome::NotChecked;
  rule.findings.push_back("results.jsonl cannot be used: " + view.run_problem);
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

using Json = nlohmann::json;

constexpr const char* kRequired[] = {
    "README.md", kBundleManifest, kBundleHashes,   "google_benchmark.json",
    "plan.json", "report.md",     "results.jsonl", "table.csv",
    "table.txt"};

constexpr const char* kOptional[] = {"report.html",      "conditions.json", "base.results.jsonl",
                                     "base.plan.json",   "policy.json",     "base.conditions.json",
                                     "calibration.json", kBundleTurnsPlan,  kBundleRounds,
                                     kBundleComparison};

// Those that are read a piece at a time, or not at all.
constexpr std::string_view kLongFiles[] = {
    "results.jsonl", "base.results.jsonl",    kBundleRounds, "report.html", "report.md",
    "table.csv",     "google_benchmark.json", "table.txt",   "timelines/"};

// Of a file of a bundle; others are read whole.
std::uint64_t size_bytes_max(std::string_view name) {
  const bool is_long = std::ranges::any_of(
      kLongFiles, [&](std::string_view known) { return name.starts_with(known); });
  return is_long ? kBundleInput.size_bytes_max : kPlanInput.size_bytes_max;
}

// Empty where the name may be unpacked: relative, plain, within the bundle's folder.
std::string unsafe_reason(const std::string& name) {
  if (name.empty()) return "an empty name";
  if (name.front() == '/') return "an absolute path";
  if (!name.starts_with(kBundleFolder)) return fmt::format("not in {}", kBundleFolder);
  std::istringstream parts(name);
  for (std::string part; std::getline(parts, part, '/');) {
    if (part.empty() || part == "." || part == "..") return "a path that leads elsewhere";
  }
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char byte) {
    return std::isalnum(byte) != 0 || byte == '.' || byte == '_' || byte == '-' || byte == '/';
  });
  return plain && name.back() != '/' ? "" : "characters that a name here never has";
}

bool needs_plan(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return false;
  if (view.plan) return true;
  rule.outcome = RuleOutcome::NotChecked;
  rule.findings.push_back("plan.json cannot be used: " + view.plan_problem);
  return false;
}

// "<hash>  <name>" per line.
std::map<std::string, std::string> listed_hashes(const BundleView& view) {
  std::map<std::string, std::string> hashes;
  const auto file = view.files.find(kBundleHashes);
  if (file == view.files.end()) return hashes;
  std::istringstream lines(file->second.whole());
  for (std::string line; std::getline(lines, line);) {
    const bool sound = line.size() > 66 && line.substr(64, 2) == "  ";
    // What is no such line stands under a name that no file has.
    hashes[sound ? line.substr(66) : "'" + line + "'"] = sound ? line.substr(0, 64) : "";
  }
  return hashes;
}

void archive_whole(const BundleView& view, CheckedRule& rule) {
  if (!view.damage.empty()) broken(rule, view.damage);
}

void names_safe(const BundleView& view, CheckedRule& rule) {
  for (const std::string& name : view.unsafe_names) broken(rule, name);
}

void files_complete(const BundleView& view, CheckedRule& rule) {
  std::set<std::string> wanted(std::begin(kRequired), std::end(kRequired));
  for (const auto& [name, hash] : listed_hashes(view)) {
    if (!hash.empty()) wanted.insert(name);
  }
  if (view.files.contains("base.results.jsonl")) wanted.insert(kBundleComparison);
  if (view.files.contains(kBundleComparison)) wanted.insert("base.results.jsonl");
  if (view.files.contains(kBundleRounds)) wanted.insert(kBundleTurnsPlan);
  if (view.files.contains(kBundleTurnsPlan)) wanted.insert(kBundleRounds);
  for (const std::string& name : wanted) {
    if (!view.files.contains(name)) broken(rule, name + " is missing");
  }
}

// "timelines/CELL_ID.json" of a cell that there is.
bool is_timeline(const BundleView& view, const std::string& name) {
  if (!view.run) return name.starts_with("timelines/");
  return std::ranges::any_of(view.run->cells, [&](const CellResult& cell) {
    return name == fmt::format("timelines/{}.json", cell.key.id());
  });
}

void files_known(const BundleView& view, CheckedRule& rule) {
  for (const std::string& finding : view.too_large) broken(rule, finding);
  const auto hashes = listed_hashes(view);
  for (const auto& [name, text] : view.files) {
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
    const auto file = view.files.find(name);
    if (hash.empty()) {
      broken(rule, "SHA256SUMS has a line that lists no file: " + name);
    } else if (file != view.files.end() && sha256_of(file->second.bytes()) != hash) {
      broken(rule, name + " is not the file that was bundled");
    }
  }
}

void results_whole(const BundleView& view, CheckedRule& rule) {
  if (!view.run) return broken(rule, view.run_problem);
  if (!view.turns_problem.empty()) broken(rule, view.turns_problem);
  if (view.run->torn || view.run->newline_missing) {
    broken(rule, "the last line is cut short: the run was still being written or was killed");
  }
  if (view.run->cells.empty()) broken(rule, "there are no cells");
  if (view.run->replaced_line_count > 0) {
    rule.notes.push_back(fmt::format("{} lines are of cells that were run again; the last counts",
                                     view.run->replaced_line_count));
  }
}

void plan_complete(const BundleView& view, CheckedRule& rule) {
  if (!needs_plan(view, rule)) return;
  std::map<std::string, const CellResult*> by_id;
  for (const CellResult& cell : view.run->cells) by_id[cell.key.id()] = &cell;
  for (const CellKey& key : view.plan->cells) {
    const auto found = by_id.find(key.id());
    if (found == by_id.end()) {
      broken(rule, name_of(key) + ": planned, but has no result");
    } else if (found->second->status == CellStatus::Skipped) {
      rule.notes.push_back(name_of(key) + ": skipped: " + found->second->reason);
    } else if (!is_measured(*found->second)) {
      broken(rule, fmt::format("{}: {}: {}", name_of(key), to_string(found->second->status),
                               found->second->reason));
    }
  }
}

void plan_kept(const BundleView& view, CheckedRule& rule) {
  if (!needs_plan(view, rule)) return;
  std::set<std::string> planned;
  for (const CellKey& key : view.plan->cells) planned.insert(key.id());
  // Where passes went on until intervals were narrow their number differs from cell to cell.
  const bool until_width = view.plan->width_max > 0;
  std::uint32_t pass_count_max = until_width
                                     ? std::max(view.plan->pass_count_max, view.plan->pass_count)
                                     : view.plan->pass_count;
  // Two sides whose passes take turns make as many as their own plan allows.
  if (view.turns) pass_count_max = std::max(pass_count_max, view.turns->plan.pass_count_max);
  for (const CellResult& cell : view.run->cells) {
    if (cell.key.device != view.run->environment.device) {
      broken(rule, fmt::format("{}: run on {}, the environment is of {}", name_of(cell.key),
                               cell.key.device, view.run->environment.device));
    }
    if (!planned.contains(cell.key.id())) {
      broken(rule, name_of(cell.key) + ": not in the plan");
    } else if (is_measured(cell) &&
               (cell.pass_count < view.plan->pass_count || cell.pass_count > pass_count_max)) {
      broken(rule, fmt::format("{}: {} passes, the plan says {} to {}", name_of(cell.key),
                               cell.pass_count, view.plan->pass_count, pass_count_max));
    }
  }
}

void work_same(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  using Work = std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
  std::map<std::pair<std::string, std::uint64_t>, Work> works;
  std::vector<const CellResult*> cells;
  for (const CellResult& cell : view.run->cells) cells.push_back(&cell);
  if (view.turns) {
    for (const RoundResult& round : view.turns->rounds) cells.push_back(&round.cell);
  }
  for (const CellResult* one : cells) {
    const CellResult& cell = *one;
    if (!is_measured(cell)) continue;
    const Work work{cell.trace_hash, cell.event_count, cell.allocate_count, cell.deallocate_count,
                    cell.requested_bytes_peak};
    const auto [place, is_new] = works.try_emplace({cell.key.workload, cell.key.seed}, work);
    if (!is_new && place->second != work) {
      broken(rule, name_of(cell.key) + ": other work than another cell of the same workload");
    }
  }
  const auto manifest = view.files.find(kBundleManifest);
  if (manifest == view.files.end()) return;
  const Json said = parse_json(manifest->second.whole());
  const Json wanted = parse_json(bundle_manifest("", view.run->cells));
  if (!said.is_object() || !said.contains("traces") || said["traces"] != wanted["traces"]) {
    broken(rule, "bundle.json names other traces than results.jsonl");
  }
}

// Rounds are to an A/B run what passes are to others.
void rounds_enough(const BundleView& view, CheckedRule& rule) {
  for (const InterleavedCell& cell : view.turns->plan.cells) {
    for (std::uint32_t side = 0; side < kSideCount; ++side) {
      const CellKey& key = side == 0 ? cell.base : cell.now;
      const auto count = std::count_if(
          view.turns->rounds.begin(), view.turns->rounds.end(), [&](const RoundResult& round) {
            return round.side == side && round.cell.key == key && is_measured(round.cell);
          });
      if (count >= kPublishedPassCountMin) continue;
      broken(rule, fmt::format("{}: {} rounds of side {}, {} are needed to see their spread",
                               name_of(key), count, side_name(side), kPublishedPassCountMin));
    }
  }
}

void samples_enough(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  if (view.turns) rounds_enough(view, rule);
  for (const CellResult& cell : view.run->cells) {
    for (const std::string& finding :
         missing_samples(cell, view.turns ? 1 : kPublishedPassCountMin)) {
      broken(rule, name_of(cell.key) + ": " + finding);
    }
    for (const std::string& finding : marked_quantiles(cell)) {
      rule.notes.push_back(name_of(cell.key) + ": no claim: " + finding);
    }
  }
}

void environment_fit(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  const Environment& environment = view.run->environment;
  std::string build = environment.build_type;
  std::transform(build.begin(), build.end(), build.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  if (build.empty() || build == "debug") {
    broken(rule,
           fmt::format("build type '{}': its latencies mean nothing", environment.build_type));
  }
  if (environment.git_sha.empty()) {
    rule.reservations.emplace_back("built outside a checkout: its source is not known");
  } else if (environment.git_dirty) {
    rule.reservations.emplace_back(
        "built from a checkout with local changes: the commit alone does not reproduce it");
  }
  for (const std::string& warning : environment.warnings) {
    // What 'run --allow-debug' writes for builds with sanitizers.
    const bool unfit = warning.find("latencies mean nothing") != std::string::npos;
    unfit ? broken(rule, warning) : rule.notes.push_back(warning);
  }
}

void page_of_results(const BundleView& view, CheckedRule& rule) {
  const auto page = view.files.find("report.html");
  const auto results = view.files.find("results.jsonl");
  if (page == view.files.end()) {
    rule.outcome = RuleOutcome::NotApplicable;
  } else if (results == view.files.end() ||
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

}  // namespace

BundleView view_bundle(TarContents contents, const CheckOptions& options) {
  BundleView view{.damage = contents.damage, .options = options};
  for (const std::string& name : contents.others) {
    view.unsafe_names.push_back(name + ": a link or device, not a file");
  }
  for (std::string name : contents.folders) {
    while (name.ends_with('/')) name.pop_back();
    // The bundle's own folder is one, without anything behind its slash.
    const std::string reason = unsafe_reason(name + "/x");
    if (!reason.empty()) view.unsafe_names.push_back(name + ": " + reason);
  }
  for (StoredFile& file : contents.files) {
    const std::string reason = unsafe_reason(file.name);
    const std::string name =
        reason.empty() ? file.name.substr(std::string(kBundleFolder).size()) : "";
    if (!reason.empty()) {
      view.unsafe_names.push_back(file.name + ": " + reason);
    } else if (file.text.size_bytes() > size_bytes_max(name)) {
      view.too_large.push_back(fmt::format("{} has {}, more than the {} that such a file has", name,
                                           format_bytes(file.text.size_bytes()),
                                           format_bytes(size_bytes_max(name))));
    } else if (!view.files.try_emplace(name, std::move(file.text)).second) {
      view.unsafe_names.push_back(file.name + ": is there twice");
    }
  }
  try {
    view.run_problem = "it is missing";
    if (const auto results = view.files.find("results.jsonl"); results != view.files.end()) {
      view.run = bundled_run(view.files, "", CellDetail::Summary);
      view.whole = cells_of_text(results->second, results->first, view.run->places);
    }
  } catch (const Error& error) {
    view.run_problem = error.what();
  }
  try {
    const bool has_turns = view.files.contains(kBundleRounds) &&
                           view.files.contains(kBundleTurnsPlan) &&
                           view.files.contains("base.results.jsonl");
    if (has_turns && view.run) view.turns = bundled_turns(view.files);
    if (view.turns && view.turns->torn)
      view.turns_problem = "the last line of rounds.jsonl is cut short";
  } catch (const Error& error) {
    view.turns_problem = error.what();
  }
  try {
    const auto plan = view.files.find("plan.json");
    view.plan_problem = "it is missing";
    if (plan != view.files.end()) {
      view.plan = manifest_from_json(plan->second.whole(), plan->first);
    }
  } catch (const Error& error) {
    view.plan_problem = error.what();
  }
  return view;
}

std::span<const BundleRule> bundle_rules() { return kRules; }

}  // namespace allocmark

// What goes into a bundle.
#include "harness/tools/bundle/bundle.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include "base/error.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/shell_text.h"
#include "harness/core/run/run_folder.h"
#include "harness/shell/pages/report_files.h"
#include "harness/tools/bundle/private_words.h"
#include "results/compare/compare.h"
#include "results/compare/compare_writers.h"
#include "results/compare/side_cells.h"
#include "results/derived.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kBundleVersion = "1.0.0";

constexpr const char* kReadme =
    "# A bundle of allocmark\n\n"
    "Measurements of GPU memory allocators, and everything they rest on.\n\n"
    "- `results.jsonl`: the record: the environment on the first line, then a line per cell.\n"
    "- `plan.json`: what was to be run; `conditions.json`: what else went on meanwhile.\n"
    "- `report.md`, `report.html`, `table.txt`, `table.csv`, `google_benchmark.json`: made from "
    "results.jsonl.\n"
    "- `base.results.jsonl`, `base.plan.json`, `policy.json`, `calibration.json`: what "
    "`comparison.json` was made\n  from, where two runs are compared.\n"
    "- `interleaved.json`, `rounds.jsonl`: of an A/B run, its plan and every round.\n"
    "- `bundle.json`: who made the bundle, and the hash of every workload's trace.\n"
    "- `SHA256SUMS`: hashes of all files; `sha256sum -c SHA256SUMS` checks them without "
    "allocmark.\n\n"
    "`allocmark check` tells whether it is complete and consistent, has enough samples, and can "
    "be made again from the raw\nresults. The numbers are defined in allocmark's "
    "results/DEFINITIONS.md, the rules in its results/BUNDLES.md.\n";

// A link in a folder may lead to what nobody wants to publish.
bool is_own_file(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::regular;
}

// Files of a run are what it wrote; a link may lead to what another one wrote, or to no run's.
void require_own_file(const std::string& path) {
  if (is_own_file(path) || !fs::exists(path)) return;  // what is missing is said where it is read
  throw UsageError({.what = "a file of a run must be a file of its own",
                    .where = path,
                    .wanted = "the file that 'allocmark run' wrote",
                    .got = fs::is_symlink(path) ? "a link" : "no file",
                    .next = "copy the run's folder with all its files"});
}

std::string read_own_file(const std::string& path, const InputKind& kind) {
  require_own_file(path);
  return read_file(path, kind);
}

// A run's own files: its results and, for a folder, its plan.
void add_run(const std::string& path, const std::string& prefix, BundleFiles& files) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (is_folder) require_own_file(results_path(path));
  files[prefix + "results.jsonl"] =
      StoredText::of_file(is_folder ? results_path(path) : path, kResultsInput);
  if (!is_folder) return;
  files[prefix + "plan.json"] = read_own_file((fs::path(path) / "plan.json").string(), kPlanInput);
  const std::string conditions = (fs::path(path) / "conditions.json").string();
  if (fs::exists(conditions))
    files[prefix + "conditions.json"] = read_own_file(conditions, kSettingsInput);
}

// An A/B run: its side A is the baseline, and its verdicts rest on the rounds.
void add_turns(const BundleInput& input, BundleFiles& files) {
  const fs::path folder = input.baseline;
  std::error_code error;
  if (!fs::equivalent(folder / "B", input.run, error) || error) {
    throw UsageError({.what = "the baseline is an A/B run, which is compared with itself only",
                      .where = "--baseline " + input.baseline,
                      .wanted = "its side B as the run",
                      .got = input.run,
                      .next = "allocmark bundle " + shell_word((folder / "B").string()) +
                              " --baseline " + shell_word(input.baseline)});
  }
  add_run((folder / "A").string(), "base.", files);
  for (const char* name : {kBundleTurnsPlan, kBundleRounds}) {
    files[name] = StoredText::of_file((folder / name).string(), kResultsInput);
  }
  // What went on during the rounds is stored for both sides at once.
  const std::string conditions = (folder / "conditions.json").string();
  if (fs::exists(conditions)) {
    files["base.conditions.json"] = read_own_file(conditions, kSettingsInput);
  }
}

void add_timelines(const std::string& run, const std::vector<CellResult>& cells,
                   BundleFiles& files) {
  for (const CellResult& cell : cells) {
    const std::string name = timeline_name(cell.key);
    const std::string path = (fs::path(run) / name).string();
    if (is_own_file(path)) files[name] = StoredText::of_file(path, kTimelineInput);
  }
}

RunSide side_in_bundle(const BundleFiles& files, const std::string& label,
                       const std::string& prefix) {
  RunSide side{.label = label};
  side.file = bundled_run(files, prefix, CellDetail::Outline);
  const std::string name = prefix + "results.jsonl";
  side.whole = cells_of_text(files.at(name), name, std::move(side.file.places));
  const auto plan = files.find(prefix + "plan.json");
  if (plan != files.end()) {
    side.planned = manifest_from_json(plan->second.whole(), plan->first).cells;
    forget_measured(&side);
  }
  return side;
}

}  // namespace

InterleavedRun bundled_turns(const BundleFiles& files) {
  InterleavedRun run;
  run.plan = interleaved_plan_from_json(files.at(kBundleTurnsPlan).whole(), kBundleTurnsPlan);
  run.environments = {bundled_run(files, "base.", CellDetail::Outline).environment,
                      bundled_run(files, "", CellDetail::Outline).environment};
  read_rounds(files.at(kBundleRounds), kBundleRounds, &run);
  return run;
}

std::string timeline_name(const CellKey& key) { return fmt::format("timelines/{}.json", key.id()); }

std::string bundle_readme() { return kReadme; }

std::string bundle_manifest(const std::string& version, const std::vector<CellResult>& cells) {
  OrderedJson traces = OrderedJson::array();
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const CellResult& cell : cells) {
    if (!is_measured(cell) || !seen.emplace(cell.key.workload, cell.key.seed).second) continue;
    traces.push_back({{"workload", cell.key.workload},
                      {"seed", cell.key.seed},
                      {"trace_name", cell.trace_name},
                      {"trace_hash", cell.trace_hash},
                      {"event_count", cell.event_count}});
  }
  const OrderedJson json = {{"kind", "bundle"},
                            {"bundle_version", kBundleVersion},
                            {"schema_version", kSchemaVersion},
                            {"made_by", "allocmark " + version},
                            {"traces", traces}};
  return json_text(json, 1) + "\n";
}

Comparison bundled_verdicts(const BundleFiles& files) {
  ComparePolicy policy;
  if (const auto file = files.find("policy.json"); file != files.end()) {
    policy = policy_from_json(file->second.whole(), file->first);
  }
  std::optional<Calibration> calibration;
  if (const auto file = files.find("calibration.json"); file != files.end()) {
    calibration = calibration_from_json(file->second.whole(), file->first);
  }
  if (files.contains(kBundleRounds) && files.contains(kBundleTurnsPlan)) {
    return compare_interleaved(bundled_turns(files), policy);
  }
  const RunSide base = side_in_bundle(files, "BASE", "base.");
  const RunSide now = side_in_bundle(files, "NEW", "");
  return compare_runs(base, now, policy, calibration);
}

BundleFiles collect_bundle(const BundleInput& input, const std::string& version) {
  BundleFiles files;
  if (!fs::is_directory(input.run)) {
    throw FileError({.what = "a bundle is made of a run's folder",
                     .where = input.run,
                     .wanted = "a folder that 'allocmark run' wrote",
                     .got = fs::exists(input.run) ? "a file" : "nothing of that name",
                     .next = "check the folder's name"});
  }
  add_run(input.run, "", files);
  const RunFile file = bundled_run(files, "", CellDetail::Summary);
  if (file.torn || file.newline_missing) {
    throw UsageError({.what = "the run is still being written or was killed",
                      .where = results_path(input.run),
                      .wanted = "a finished run",
                      .got = "a last line that is cut short",
                      .next = "finish it: allocmark run --resume --out " + shell_word(input.run)});
  }
  std::map<std::string, std::shared_ptr<Spool>> made;
  make_report_files(file.environment, file.cells,
                    cells_of_text(files["results.jsonl"], "results.jsonl", file.places),
                    [&](const std::string& name) -> TextSink {
                      made[name] = std::make_shared<Spool>();
                      return [text = made[name]](std::string_view piece) { text->append(piece); };
                    });
  for (const auto& [name, spool] : made) files[name] = StoredText(spool);
  files["README.md"] = bundle_readme();
  files[kBundleManifest] = bundle_manifest(version, file.cells);
  add_timelines(input.run, file.cells, files);
  const std::string page = (fs::path(input.run) / "report.html").string();
  if (is_own_file(page)) {
    StoredText html = StoredText::of_file(page, kPageInput);
    // A page of an earlier state of the folder does not belong here.
    if (page_results_hash(html) == sha256_of(files["results.jsonl"].bytes())) {
      files["report.html"] = std::move(html);
    }
  }
  if (!input.baseline.empty()) {
    const bool turns = fs::exists(fs::path(input.baseline) / kBundleTurnsPlan);
    turns ? add_turns(input, files) : add_run(input.baseline, "base.", files);
    if (!input.policy.empty()) files["policy.json"] = read_file(input.policy, kSettingsInput);
    if (!input.calibration.empty())
      files["calibration.json"] = read_file(input.calibration, kCalibrationInput);
    files[kBundleComparison] = render_comparison_json(bundled_verdicts(files));
  }
  leave_out_paths(&files);
  return files;
}

std::string bundle_hashes(const BundleFiles& files) {
  std::string text;
  for (const auto& [name, content] : files) {
    text += fmt::format("{}  {}\n", sha256_of(content.bytes()), name);
  }
  return text;
}

std::vector<StoredFile> bundle_archive(BundleFiles files) {
  std::vector<StoredFile> archive;
  archive.push_back({std::string(kBundleFolder) + kBundleHashes, bundle_hashes(files)});
  for (auto& [name, text] : files) archive.push_back({kBundleFolder + name, std::move(text)});
  std::sort(archive.begin(), archive.end(),
            [](const StoredFile& a, const StoredFile& b) { return a.name < b.name; });
  return archive;
}

std::string page_results_hash(const StoredText& html) {
  constexpr std::string_view kMark = "<meta name=\"allocmark-results-sha256\" content=\"";
  // The mark stands in the page's head; the page is megabytes long.
  std::string head(4096, '\0');
  head.resize(html.read(0, head));
  const std::size_t at = head.find(kMark);
  return at == std::string::npos ? "" : head.substr(at + kMark.size(), 64);
}

}  // namespace allocmark

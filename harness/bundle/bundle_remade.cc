// Rules that make again what a bundle holds and look whether it is the same.
#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/input_file.h"
#include "base/json_text.h"
#include "harness/bundle/bundle_rules.h"
#include "harness/bundle/made_again.h"
#include "harness/bundle/report_files.h"
#include "harness/run/environment.h"
#include "harness/run/runtime_select.h"
#include "results/derived.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// "allocmark 1.2.3 (git abc)"; empty where bundle.json does not say.
std::string made_by(const BundleView& view) {
  const auto manifest = view.files.find(kBundleManifest);
  if (manifest == view.files.end()) return "";
  const Json json = parse_json(manifest->second.whole());
  const Json said = json.is_object() ? json.value("made_by", Json()) : Json();
  return said.is_string() ? said.get<std::string>() : "";
}

// What was made again differs: wrong, where this version made it; where another one did, only that
// one can tell.
void differs(const BundleView& view, const std::string& what, CheckedRule& rule) {
  const std::string ours = "allocmark " + view.options.version;
  const std::string theirs = made_by(view);
  if (theirs == ours) return broken(rule, what);
  if (rule.outcome == RuleOutcome::Kept) rule.outcome = RuleOutcome::NotChecked;
  rule.findings.push_back(fmt::format(
      "{}: this is {}, and '{}' made it: check it with that version", what, ours, theirs));
}

void must_equal(const BundleView& view, const std::string& name, const std::string& made_again,
                CheckedRule& rule) {
  const auto file = view.files.find(name);
  if (file == view.files.end() || file->second.equals(made_again)) return;
  differs(view, name + " is not what its raw results give", rule);
}

// Longer traces take minutes to make.
constexpr std::uint64_t kRegeneratedEventsMax = 50'000'000;

void regenerate(const BundleView& view, const CellResult& cell, const TimeBudget& budget,
                CheckedRule& rule) {
  const std::string& workload = cell.key.workload;
  if (names_files(cell.key)) {
    const std::string& hash = cell.key.workload_files;
    rule.notes.push_back(
        fmt::format("{} was not made again: it names a trace file{}, which is not in the bundle",
                    workload, hash.empty() ? "" : fmt::format(" (content hash {})", hash)));
    return;
  }
  if (cell.event_count > kRegeneratedEventsMax) {
    rule.notes.push_back(fmt::format("{} was not made again: it is too long", workload));
    return;
  }
  const EventsAgain again = events_again(cell.key, cell.event_count, budget);
  if (!again.hash.empty() && again.hash != cell.trace_hash) {
    differs(view, fmt::format("{} with seed {} gives other events", workload, cell.key.seed), rule);
  } else if (again.hash.empty()) {
    if (rule.outcome == RuleOutcome::Kept) rule.outcome = RuleOutcome::NotChecked;
    rule.findings.push_back(
        again.over_limit
            ? fmt::format("{} was not made again within the limits: give it more with --seconds",
                          workload)
            : again.problem);
  }
}

// Cells that the simulated GPU can be asked for again, those with fewest events first.
std::vector<const CellResult*> simulated_cells(const BundleView& view) {
  std::vector<const CellResult*> cells;
  for (const CellResult& cell : view.run->cells) {
    if (is_measured(cell) && can_simulate(cell.key)) cells.push_back(&cell);
  }
  std::ranges::stable_sort(cells, {}, [](const CellResult* cell) { return cell->event_count; });
  return cells;
}

void note_left_out(const BundleView& view, CheckedRule& rule) {
  const auto count = std::ranges::count_if(view.run->cells, [](const CellResult& cell) {
    return is_measured(cell) && is_simulated(cell.key.device) && names_files(cell.key);
  });
  if (count == 0) return;
  rule.notes.push_back(fmt::format(
      "{} cells were not simulated again: they name trace files, which are not in the bundle",
      count));
}

std::string timeline_name(const CellKey& key) { return fmt::format("timelines/{}.json", key.id()); }

// Where timelines are made again.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "allocmark-check-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] std::string path_of(const CellKey& key) const {
    return (fs::path(path_) / (key.id() + ".json")).string();
  }

 private:
  std::string path_;
};

// As the run made them. Passes of an A/B run took turns with other ones and are not made again.
std::vector<CellSpec> specs_of(const BundleView& view, const std::vector<const CellResult*>& cells,
                               const ScratchFolder& scratch) {
  std::vector<CellSpec> specs;
  for (const CellResult* cell : cells) {
    CellSpec spec;
    spec.key = cell->key;
    spec.pass_count = view.turns || !view.plan ? 0 : cell->pass_count;
    if (view.plan) spec.verify = view.plan->verify;
    if (view.files.contains(timeline_name(spec.key)))
      spec.timeline_path = scratch.path_of(spec.key);
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Of a simulated GPU the profile says everything; of another one nothing can be known here.
void check_simulated_gpu(const BundleView& view, CheckedRule& rule) {
  const Environment& stored = view.run->environment;
  if (!is_simulated(stored.device) || view.options.program_path.empty()) return;
  if (stored.device.find('/') != std::string::npos || stored.device.ends_with(".json")) return;
  const DeviceAnswer answer = describe_device(stored.device, view.options.program_path);
  if (!answer.failure.empty()) {
    rule.notes.push_back(stored.device + " is not known here: " + answer.failure);
    return;
  }
  struct Fact {
    const char* name;
    std::string stored, made;
  };
  const Environment& facts = answer.facts;
  for (const Fact& fact : {Fact{"gpu_name", stored.gpu_name, facts.gpu_name},
                           Fact{"gpu_uuid_hash", stored.gpu_uuid_hash, facts.gpu_uuid_hash},
                           Fact{"gpu_memory_bytes", std::to_string(stored.gpu_memory_bytes),
                                std::to_string(facts.gpu_memory_bytes)},
                           Fact{"profile_name", stored.profile_name, facts.profile_name},
                           Fact{"profile_hash", stored.profile_hash, facts.profile_hash}}) {
    if (fact.stored == fact.made) continue;
    differs(view,
            fmt::format("{} is '{}', and {} has '{}'", fact.name, fact.stored, stored.device,
                        fact.made),
            rule);
  }
}

// A text of the bundle that is made again.
struct MadeText {
  StoredText stored = {};
  std::uint64_t same_bytes = 0;  // at its beginning
  bool there = false, differs = false;
  void take(std::string_view piece) {
    std::string part(differs ? 0 : piece.size(), '\0');
    part.resize(stored.read(same_bytes, part));
    differs = differs || part != piece;
    if (!differs) same_bytes += piece.size();
  }
};

}  // namespace

void traces_regenerated(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  const TimeBudget budget(view.options.seconds);
  std::set<std::pair<std::string, std::uint64_t>> seen;
  for (const CellResult& cell : view.run->cells) {
    if (!is_measured(cell) || !seen.emplace(cell.key.workload, cell.key.seed).second) continue;
    regenerate(view, cell, budget, rule);
  }
}

void cells_simulated(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  std::vector<const CellResult*> cells = simulated_cells(view);
  note_left_out(view, rule);
  if (cells.empty() || view.options.program_path.empty()) {
    rule.outcome = RuleOutcome::NotApplicable;
    return;
  }
  const std::size_t all = cells.size();
  check_simulated_gpu(view, rule);
  if (!view.options.rerun_all) {
    std::erase_if(cells,
                  [](const CellResult* cell) { return cell->event_count > kQuickEventsMax; });
  }
  const ScratchFolder scratch;
  const std::vector<CellSpec> specs = specs_of(view, cells, scratch);
  const auto judge = [&](std::size_t i, const CellResult& again) {
    const auto index = static_cast<std::size_t>(cells[i] - view.run->cells.data());
    for (const std::string& difference : exact_differences(view.whole.whole(index), again)) {
      differs(view, name_of(cells[i]->key) + ": " + difference, rule);
    }
    if (specs[i].timeline_path.empty() || !is_measured(again)) return;
    must_equal(view, timeline_name(specs[i].key), read_file(specs[i].timeline_path, kTimelineInput),
               rule);
  };
  const std::size_t done =
      simulate_again(specs, view.options.program_path, TimeBudget(view.options.seconds), judge);
  if (done == all) return;
  const std::string left = fmt::format(
      "{} of {} cells were not simulated again: give --rerun and "
      "more --seconds",
      all - done, all);
  if (view.options.rerun_all && rule.outcome == RuleOutcome::Kept) {
    rule.outcome = RuleOutcome::NotChecked;
  }
  (view.options.rerun_all ? rule.findings : rule.notes).push_back(left);
}

void texts_unchanged(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  must_equal(view, "README.md", bundle_readme(), rule);
  const std::string maker = made_by(view);
  const std::string prefix = "allocmark ";
  must_equal(view, kBundleManifest,
             bundle_manifest(maker.starts_with(prefix) ? maker.substr(prefix.size()) : "",
                             view.run->cells),
             rule);
}

void tables_recomputed(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  // What is made again is held against what is there a piece at a time.
  std::map<std::string, MadeText> made;
  make_report_files(view.run->environment, view.run->cells, view.whole,
                    [&](const std::string& name) -> TextSink {
                      const auto file = view.files.find(name);
                      const bool there = file != view.files.end();
                      if (there) made[name].stored = file->second;
                      made[name].there = there;
                      return [text = &made[name]](std::string_view piece) { text->take(piece); };
                    });
  for (const auto& [name, text] : made) {
    if (text.there && (text.differs || text.same_bytes < text.stored.size_bytes())) {
      differs(view, name + " is not what its raw results give", rule);
    }
  }
}

void verdicts_recomputed(const BundleView& view, CheckedRule& rule) {
  if (!view.files.contains(kBundleComparison) && !view.files.contains("base.results.jsonl")) {
    rule.outcome = RuleOutcome::NotApplicable;
    return;
  }
  if (!needs_run(view, rule)) return;
  if (!view.files.contains("base.results.jsonl")) {
    rule.outcome = RuleOutcome::NotChecked;
    rule.findings.push_back("base.results.jsonl is missing");
    return;
  }
  try {
    must_equal(view, kBundleComparison, bundle_comparison(view.files), rule);
  } catch (const Error& error) {
    broken(rule, error.what());
  }
}

}  // namespace allocmark

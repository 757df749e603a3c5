// The rule 'cells-simulated': every cell of the run, of its baseline and of the rounds of an A/B
// run is made again on the simulated GPU. What cannot be made again here is counted and said: it is
// never taken for checked.
#include <stdlib.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "base/input_file.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "harness/tools/bundle/made_again.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

namespace fs = std::filesystem;

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

// Of a simulated GPU the profile says everything.
void check_simulated_gpu(const BundleView& view, const Environment& stored, CheckedRule& rule) {
  if (!is_simulated(stored.device) || names_profile_file(stored.device)) return;
  const DeviceAnswer answer = describe_device(stored.device, view.options.program_path);
  if (!answer.failure.empty()) {
    return not_checked(rule, stored.device + " is not known here: " + answer.failure);
  }
  struct Fact {
    const char* name;
    std::string stored, made;
  };
  const Environment& facts = answer.facts;
  const auto text = [](double value) { return fmt::format("{}", value); };
  for (const Fact& fact : {Fact{"gpu_name", stored.gpu_name, facts.gpu_name},
                           Fact{"gpu_uuid_hash", stored.gpu_uuid_hash, facts.gpu_uuid_hash},
                           Fact{"gpu_memory_bytes", std::to_string(stored.gpu_memory_bytes),
                                std::to_string(facts.gpu_memory_bytes)},
                           Fact{"profile_name", stored.profile_name, facts.profile_name},
                           Fact{"profile_hash", stored.profile_hash, facts.profile_hash},
                           Fact{"profile_host_reference_ns", text(stored.profile_host_reference_ns),
                                text(facts.profile_host_reference_ns)},
                           Fact{"profile_clock_overhead_ns", text(stored.profile_clock_overhead_ns),
                                text(facts.profile_clock_overhead_ns)},
                           Fact{"profile_host_reference_basis", stored.profile_host_reference_basis,
                                facts.profile_host_reference_basis}}) {
    if (fact.stored == fact.made) continue;
    differs(view,
            fmt::format("{} is '{}', and {} has '{}'", fact.name, fact.stored, stored.device,
                        fact.made),
            rule);
  }
}

// How a cell ran, as far as its numbers depend on it.
struct Manner {
  std::uint32_t pass_count = 0;
  VerifyLevel verify = VerifyLevel::Edges;
  friend auto operator<=>(const Manner&, const Manner&) = default;
};

// A stored cell: a line of a file of results, or a process of an A/B run.
struct StoredCell {
  const CellSource* source = nullptr;
  std::size_t index = 0;
  std::string name = {};
  bool is_line = true;          // of results, and counts as a cell; a round does not
  bool is_of_this_run = false;  // timelines are
  bool other_version = false;   // an A/B run's side may be of another program
};

// Stored cells that one cell answers for.
struct Again {
  CellSpec spec = {};
  std::uint64_t event_count = 0;
  std::vector<StoredCell> stored = {};
};

// Why a cell cannot be made again here; empty where it can.
std::string obstacle_of(const CellKey& key) {
  if (!is_simulated(key.device)) return "their device is no simulated GPU of this version";
  if (names_profile_file(key.device)) return "their device's profile is a file of its own";
  if (names_files(key)) return "their traces are not in the bundle";
  if (!can_simulate(key)) return "what they allocate with is not part of allocmark";
  return "";
}

bool same_program(const Environment& a, const Environment& b) {
  return a.allocmark_version == b.allocmark_version && a.git_sha == b.git_sha &&
         a.git_dirty == b.git_dirty;
}

class Simulation {
 public:
  Simulation(const BundleView& view, CheckedRule& rule) : view_(view), rule_(rule) {}

  // A file of results and its plan. `label` stands before the names of its cells.
  void add_run(const RunFile& run, const CellSource& source, const RunManifest& plan,
               const std::string& label) {
    for (std::size_t index = 0; index < run.cells.size(); ++index) {
      const CellResult& cell = run.cells[index];
      if (!is_measured(cell) && cell.status != CellStatus::Skipped) continue;
      // Passes of an A/B run took turns with other ones and are not made again.
      const bool has_passes = is_measured(cell) && !view_.turns;
      add(cell, {.pass_count = has_passes ? cell.pass_count : 0, .verify = plan.verify},
          {.source = &source,
           .index = index,
           .name = label + name_of(cell.key),
           .is_of_this_run = label.empty(),
           .other_version = !same_program(run.environment, view_.run->environment)});
    }
  }

  void add_rounds(const InterleavedRun& turns, VerifyLevel verify) {
    for (std::size_t index = 0; index < turns.rounds.size(); ++index) {
      const RoundResult& round = turns.rounds[index];
      if (!is_measured(round.cell)) continue;
      // Later rounds repeat what the first one checked.
      add(round.cell, {.verify = round.round == 0 ? verify : VerifyLevel::Off},
          {.source = &turns.whole,
           .index = index,
           .name = fmt::format("round {}, side {}: {}", round.round + 1, side_name(round.side),
                               name_of(round.cell.key)),
           .is_line = false,
           .other_version =
               !same_program(turns.environments.at(round.side), view_.run->environment)});
    }
  }

  void run() {
    const ScratchFolder scratch;
    std::vector<Again> wanted = std::move(again_);
    std::ranges::stable_sort(wanted, {}, &Again::event_count);
    if (!view_.options.rerun_all) {
      std::erase_if(wanted, [](const Again& one) { return one.event_count > kQuickEventsMax; });
    }
    std::vector<CellSpec> specs;
    for (Again& one : wanted) {
      const bool has_timeline = view_.files.contains(timeline_name(one.spec.key));
      if (has_timeline) one.spec.timeline_path = scratch.path_of(one.spec.key);
      specs.push_back(one.spec);
    }
    (void)simulate_again(
        specs, view_.options.program_path, TimeBudget(view_.options.seconds),
        [&](std::size_t i, const CellResult& result) { judge(wanted[i], result); });
    say_what_is_left();
  }

 private:
  void add(const CellResult& cell, const Manner& manner, StoredCell stored) {
    if (stored.is_line) ++rule_.cell_count;
    if (const std::string obstacle = obstacle_of(cell.key); !obstacle.empty()) {
      if (stored.is_line) ++(is_gpu(cell.key.device) ? gpu_count_ : obstacles_[obstacle]);
      return;
    }
    std::size_t& place = places_.try_emplace({cell.key.id(), manner}, again_.size()).first->second;
    if (place == again_.size()) {
      Again one;
      one.spec.key = cell.key;
      one.spec.pass_count = manner.pass_count;
      one.spec.verify = manner.verify;
      again_.push_back(std::move(one));
    }
    again_[place].event_count = std::max(again_[place].event_count, cell.event_count);
    again_[place].stored.push_back(std::move(stored));
  }

  void judge(const Again& one, const CellResult& result) {
    // It ran out of the time of this check, or of the memory of this machine.
    if (result.status == CellStatus::TimedOut || result.status == CellStatus::Crashed) return;
    for (const StoredCell& stored : one.stored) {
      judge_one(stored, result);
      if (stored.is_line) ++rule_.cells_made_again;
    }
    const bool of_run = std::ranges::any_of(one.stored, &StoredCell::is_of_this_run);
    if (!of_run || one.spec.timeline_path.empty() || !is_measured(result)) return;
    must_equal(view_, timeline_name(one.spec.key),
               read_file(one.spec.timeline_path, kTimelineInput), rule_);
  }

  void judge_one(const StoredCell& stored, const CellResult& result) {
    const CellResult& cell = stored.source->whole(stored.index);
    std::vector<std::string> differences;
    if (cell.status == CellStatus::Skipped) {
      if (result.status == CellStatus::Skipped) return;
      differences.push_back(fmt::format("stored as skipped ({}), and simulated again it is {}",
                                        cell.reason, to_string(result.status)));
    } else {
      differences = exact_differences(cell, result);
    }
    for (const std::string& difference : differences) {
      const std::string finding = stored.name + ": " + difference;
      stored.other_version
          ? not_checked(rule_, finding + ": another version made it, which alone can tell")
          : differs(view_, finding, rule_);
    }
  }

  void say_what_is_left() {
    std::uint64_t told_count = gpu_count_;
    for (const auto& [obstacle, count] : obstacles_) {
      told_count += count;
      not_checked(rule_, fmt::format("{} of {} cells cannot be made again here: {}", count,
                                     rule_.cell_count, obstacle));
    }
    if (gpu_count_ > 0) {
      rule_.reservations.push_back(
          fmt::format("{} of {} cells are of a GPU: their numbers are held against each other only",
                      gpu_count_, rule_.cell_count));
    }
    const std::uint64_t left_count = rule_.cell_count - rule_.cells_made_again - told_count;
    if (left_count == 0) return;
    not_checked(rule_,
                fmt::format("{} of {} cells were not simulated again in this time: allocmark "
                            "check --rerun --seconds 600",
                            left_count, rule_.cell_count));
  }

  const BundleView& view_;
  CheckedRule& rule_;
  std::vector<Again> again_ = {};
  std::map<std::pair<std::string, Manner>, std::size_t> places_ = {};  // in again_
  std::map<std::string, std::uint64_t> obstacles_ = {};
  std::uint64_t gpu_count_ = 0;
};

RunManifest base_plan(const BundleView& view) {
  const auto file = view.files.find("base.plan.json");
  return file == view.files.end() ? RunManifest{}
                                  : manifest_from_json(file->second.whole(), file->first);
}

}  // namespace

void cells_simulated(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  if (view.options.program_path.empty()) {
    rule.outcome = RuleOutcome::NotApplicable;
    return;
  }
  check_simulated_gpu(view, view.run->environment, rule);
  Simulation simulation(view, rule);
  const RunManifest no_plan;
  const RunManifest& plan = view.plan ? *view.plan : no_plan;
  simulation.add_run(*view.run, view.whole, plan, "");
  std::optional<RunFile> base;
  CellSource base_cells;
  try {
    if (const auto file = view.files.find("base.results.jsonl"); file != view.files.end()) {
      base = bundled_run(view.files, "base.", CellDetail::Summary);
      base_cells = cells_of_text(file->second, file->first, base->places);
      check_simulated_gpu(view, base->environment, rule);
      simulation.add_run(*base, base_cells, base_plan(view), "baseline: ");
    }
  } catch (const Error& error) {
    not_checked(rule, error.what());
  }
  if (view.turns) simulation.add_rounds(*view.turns, plan.verify);
  simulation.run();
}

}  // namespace allocmark

// The rule 'cells-simulated': every cell of the run, of its baseline and of the rounds of an A/B
// run is made again on the simulated GPU. What cannot be made again here is counted and said: it is
// never taken for checked.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/input_file.h"
#include "harness/core/bundled/bounds_again.h"
#include "harness/core/bundled/made_again.h"
#include "harness/core/bundled/scratch_folder.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/environment.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/derived.h"
#include "results/json.h"

namespace allocmark {
namespace {

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
  for (const Fact& fact :
       {Fact{"gpu_name", stored.gpu_name, facts.gpu_name},
        Fact{"gpu_uuid_hash", stored.gpu_uuid_hash, facts.gpu_uuid_hash},
        Fact{"gpu_memory_bytes", std::to_string(stored.gpu_memory_bytes),
             std::to_string(facts.gpu_memory_bytes)},
        Fact{"times_borrowed_from", stored.times_borrowed_from, facts.times_borrowed_from},
        Fact{"profile_name", stored.profile_name, facts.profile_name},
        Fact{"profile_hash", stored.profile_hash, facts.profile_hash},
        Fact{"profile_host_reference_ns", text(stored.profile_host_reference_ns),
             text(facts.profile_host_reference_ns)},
        Fact{"profile_clock_overhead_ns", text(stored.profile_clock_overhead_ns),
             text(facts.profile_clock_overhead_ns)},
        Fact{"profile_host_reference_basis", stored.profile_host_reference_basis,
             facts.profile_host_reference_basis}}) {
    if (fact.stored == fact.made) continue;
    differs(view, stored,
            fmt::format("{} is '{}', and {} has '{}'", fact.name, fact.stored, stored.device,
                        fact.made),
            rule);
  }
  for (const Fact& fact :
       {Fact{"driver_version", stored.driver_version, facts.driver_version},
        Fact{"runtime_version", stored.runtime_version, facts.runtime_version}}) {
    if (fact.stored == fact.made) continue;
    rule.reservations.push_back(fmt::format(
        "{} is '{}', and {} has '{}' here: a build with another CUDA toolkit says so, or nobody",
        fact.name, fact.stored, stored.device, fact.made));
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
  bool is_line = true;                 // of results, and counts as a cell; a round does not
  bool is_of_this_run = false;         // timelines are
  const Environment* maker = nullptr;  // an A/B run's side may be of another program
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

RunManifest plan_of(const StoredRun& run) { return run.plan.value_or(RunManifest{}); }

class Simulation {
 public:
  Simulation(const BundleView& view, CheckedRule& rule) : view_(view), rule_(rule) {}

  void add_run(const StoredRun& run) {
    const RunManifest plan = plan_of(run);
    for (std::size_t index = 0; index < run.file->cells.size(); ++index) {
      const CellResult& cell = run.file->cells[index];
      if (!is_measured(cell) && cell.status != CellStatus::Skipped) continue;
      add(cell, {.pass_count = is_measured(cell) ? cell.pass_count : 0, .verify = plan.verify},
          {.source = &run.whole,
           .index = index,
           .name = run.label + name_of(cell.key),
           .is_of_this_run = run.prefix.empty(),
           .maker = &run.file->environment});
    }
  }

  void add_rounds(const InterleavedRun& turns, VerifyLevel verify) {
    for (std::size_t index = 0; index < turns.rounds.size(); ++index) {
      const RoundResult& round = turns.rounds[index];
      if (!is_measured(round.cell)) continue;
      // Later rounds repeat what the first one checked.
      add(round.cell,
          {.pass_count = round.cell.pass_count,
           .verify = round.round == 0 ? verify : VerifyLevel::Off},
          {.source = &turns.whole,
           .index = index,
           .name = fmt::format("round {}, side {}: {}", round.round + 1, side_name(round.side),
                               name_of(round.cell.key)),
           .is_line = false,
           .maker = &turns.environments.at(round.side)});
    }
  }

  void run() {
    const ScratchFolder scratch;
    std::vector<Again> wanted = std::move(again_);
    std::ranges::stable_sort(wanted, {}, &Again::event_count);
    if (!view_.options.rerun_all) {
      std::erase_if(wanted, [](const Again& one) { return one.event_count > kQuickEventsMax; });
    }
    for (Again& one : wanted) {
      const bool has_timeline = view_.bundle.files.contains(timeline_name(one.spec.key));
      if (has_timeline) one.spec.timeline_path = scratch.path_of(one.spec.key.id() + ".json");
    }
    const TimeBudget budget(view_.options.seconds);
    simulate(wanted, budget);
    // Recording placements asks the driver, which shifts the noise of later calls; the first round
    // of an A/B run does so, and whether a run did is stored nowhere.
    std::vector<Again> differing = std::move(differing_);
    for (Again& one : differing)
      one.spec.placements_path = scratch.path_of(one.spec.key.id() + ".txt");
    simulate(differing, budget);
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

  void simulate(const std::vector<Again>& wanted, const TimeBudget& budget) {
    std::vector<CellSpec> specs;
    for (const Again& one : wanted) specs.push_back(one.spec);
    (void)simulate_again(
        specs, view_.options.program_path, budget,
        [&](std::size_t i, const CellResult& result) { judge(wanted[i], result); });
  }

  void judge(const Again& one, const CellResult& result) {
    // It ran out of the time of this check, or of the memory of this machine.
    if (result.status == CellStatus::TimedOut || result.status == CellStatus::Crashed) return;
    const bool is_last = !one.spec.placements_path.empty();
    Again differing{.spec = one.spec, .event_count = one.event_count};
    for (const StoredCell& stored : one.stored) {
      if (is_bounded_otherwise(stored.source->whole(stored.index), result)) {
        if (stored.is_line) ++obstacles_["this machine can pin another amount"];
        continue;
      }
      const std::vector<std::string> differences = differences_of(stored, result);
      if (!differences.empty() && !is_last && is_measured(result)) {
        differing.stored.push_back(stored);
        continue;
      }
      for (const std::string& difference : differences) {
        differs(view_, *stored.maker, stored.name + ": " + difference, rule_);
      }
      if (stored.is_line) ++rule_.cells_made_again;
    }
    if (!differing.stored.empty()) differing_.push_back(std::move(differing));
    if (is_last) return;
    const bool of_run = std::ranges::any_of(one.stored, &StoredCell::is_of_this_run);
    if (!of_run || one.spec.timeline_path.empty() || !is_measured(result)) return;
    if (is_of_host(one.spec.key.allocator)) {
      ++host_timeline_count_;
      return;
    }
    must_equal(view_, timeline_name(one.spec.key),
               read_file(one.spec.timeline_path, kTimelineInput), rule_);
  }

  static std::vector<std::string> differences_of(const StoredCell& stored,
                                                 const CellResult& result) {
    const CellResult& cell = stored.source->whole(stored.index);
    if (cell.status != CellStatus::Skipped) {
      std::vector<std::string> found = differences(exact_numbers(cell, result));
      if (!is_measured(result)) return found;
      std::ranges::move(impossible_beside(cell, result), std::back_inserter(found));
      return found;
    }
    if (result.status == CellStatus::Skipped) return {};
    return {fmt::format("stored as skipped ({}), and simulated again it is {}", cell.reason,
                        to_string(result.status))};
  }

  void say_what_is_left() {
    std::uint64_t told_count = gpu_count_;
    for (const auto& [obstacle, count] : obstacles_) {
      told_count += count;
      not_checked(rule_, "{} of {} cells cannot be made again here: {}", count, rule_.cell_count,
                  obstacle);
    }
    if (gpu_count_ > 0) {
      rule_.reservations.push_back(
          fmt::format("{} of {} cells are of a GPU: their numbers are held against each other only",
                      gpu_count_, rule_.cell_count));
    }
    if (host_timeline_count_ > 0) {
      rule_.reservations.push_back(
          fmt::format("{} timelines of pinned memory are not compared: its addresses are the "
                      "host's, which differ from run to run",
                      host_timeline_count_));
    }
    const std::uint64_t left_count = rule_.cell_count - rule_.cells_made_again - told_count;
    if (left_count == 0) return;
    not_checked(rule_,
                "{} of {} cells were not simulated again in this time: allocmark "
                "check --rerun --seconds 600",
                left_count, rule_.cell_count);
  }

  const BundleView& view_;
  CheckedRule& rule_;
  std::vector<Again> again_ = {};
  std::vector<Again> differing_ = {};  // from what is stored, when simulated as they are
  std::map<std::pair<std::string, Manner>, std::size_t> places_ = {};  // in again_
  std::map<std::string, std::uint64_t> obstacles_ = {};
  std::uint64_t gpu_count_ = 0;
  std::uint64_t host_timeline_count_ = 0;
};

}  // namespace

void cells_simulated(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  if (view.options.program_path.empty()) {
    rule.outcome = RuleOutcome::NotApplicable;
    return;
  }
  Simulation simulation(view, rule);
  for (const StoredRun* run : runs_of(view)) {
    check_simulated_gpu(view, run->file->environment, rule);
    simulation.add_run(*run);
  }
  if (view.turns) simulation.add_rounds(*view.turns, plan_of(view.run).verify);
  simulation.run();
}

}  // namespace allocmark

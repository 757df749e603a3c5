// Rules on each run of a bundle, the one that is published and the one that it is compared with:
// whole, as planned, the same work, enough samples, and built so that times mean something.
#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "harness/core/run/device_sharing.h"
#include "harness/core/run/interleave.h"
#include "harness/tools/bundle/bundle_rules.h"
#include "results/cell_check.h"
#include "results/compare/compare_environment.h"
#include "results/derived.h"
#include "results/json.h"
#include "results/schema_version.h"

namespace allocmark {
namespace {

using Json = nlohmann::json;

// What this version cannot read in a line would be published unseen.
void check_schema(const StoredRun& run, const BundleView& view, CheckedRule& rule) {
  const std::uint32_t ours = our_schema_version().minor;
  const RunFile& file = *run.file;
  if (file.oldest_minor != file.newest_minor) {
    broken(rule, "{}lines of schema 1.{} and of 1.{} in one file", run.label, file.oldest_minor,
           file.newest_minor);
  } else if (file.newest_minor > ours) {
    not_checked(rule,
                "{}the results are of schema 1.{}, of which this allocmark knows 1.{}: check it "
                "with the version that wrote it",
                run.label, file.newest_minor, ours);
  } else if (file.newest_minor < ours && made_here(view, file.environment)) {
    broken(rule, "{}the results are of schema 1.{}, and {} writes 1.{}", run.label,
           file.newest_minor, view.options.version, ours);
  }
}

void check_whole(const StoredRun& run, const BundleView& view, CheckedRule& rule) {
  if (!run.file) return broken(rule, run.label + run.problem);
  check_schema(run, view, rule);
  if (run.file->torn || run.file->newline_missing) {
    broken(rule,
           run.label + "the last line is cut short: the run was still being written or was killed");
  }
  if (run.file->cells.empty()) broken(rule, run.label + "there are no cells");
  if (run.file->replaced_line_count > 0) {
    rule.notes.push_back(fmt::format("{}{} lines are of cells that were run again; the last counts",
                                     run.label, run.file->replaced_line_count));
  }
}

// A baseline may be a file of results alone.
bool needs_plan_of(const StoredRun& run, CheckedRule& rule) {
  if (run.plan) return true;
  const std::string finding =
      fmt::format("{}{}plan.json cannot be used: {}", run.label, run.prefix, run.plan_problem);
  const bool may_lack_it = !run.prefix.empty() && run.plan_problem == kNotThere;
  may_lack_it
      ? rule.reservations.push_back(
            run.label + "which cells it was to have is not known: there is no base.plan.json")
      : not_checked(rule, finding);
  return false;
}

void check_all_measured(const StoredRun& run, CheckedRule& rule) {
  std::map<std::string, const CellResult*> by_id;
  for (const CellResult& cell : run.file->cells) by_id[cell.key.id()] = &cell;
  for (const CellKey& key : run.plan->cells) {
    const std::string name = run.label + name_of(key);
    const auto found = by_id.find(key.id());
    if (found == by_id.end()) {
      broken(rule, name + ": planned, but has no result");
      continue;
    }
    const CellResult& cell = *found->second;
    if (cell.status == CellStatus::Skipped) {
      rule.notes.push_back(name + ": skipped: " + cell.reason);
    } else if (!is_measured(cell)) {
      broken(rule, "{}: {}: {}", name, to_string(cell.status), cell.reason);
    } else if (cell.passes_to_come > 0) {
      broken(rule, "{}: {} passes were still to be made", name, cell.passes_to_come);
    }
  }
}

// Most passes that a cell of this run may have.
std::uint32_t pass_count_max(const StoredRun& run, const BundleView& view) {
  std::uint32_t count = run.plan->pass_count;
  // Where passes went on until intervals were narrow their number differs from cell to cell.
  if (run.plan->width_max > 0) count = std::max(count, run.plan->pass_count_max);
  // Two sides whose passes take turns make as many as their own plan allows.
  if (view.turns) count = std::max(count, view.turns->plan.pass_count_max);
  return count;
}

void check_nothing_else(const StoredRun& run, std::uint32_t most, CheckedRule& rule) {
  std::set<std::string> planned;
  for (const CellKey& key : run.plan->cells) {
    if (!planned.insert(key.id()).second)
      broken(rule, run.label + name_of(key) + ": planned twice");
  }
  for (const CellResult& cell : run.file->cells) {
    const std::string name = run.label + name_of(cell.key);
    if (cell.key.device != run.file->environment.device) {
      broken(rule, "{}: run on {}, the environment is of {}", name, cell.key.device,
             run.file->environment.device);
    }
    if (!planned.contains(cell.key.id())) {
      broken(rule, name + ": not in the plan");
    } else if (is_measured(cell) &&
               (cell.pass_count < run.plan->pass_count || cell.pass_count > most)) {
      broken(rule, "{}: {} passes, the plan says {} to {}", name, cell.pass_count,
             run.plan->pass_count, most);
    }
  }
  if (run.plan->verify == VerifyLevel::Off) {
    rule.reservations.push_back(run.label +
                                "blocks were not checked for overlaps and contents (--no-verify)");
  }
}

// The sides' plans have the cells of the plan of both.
void check_plan_of_sides(const BundleView& view, CheckedRule& rule) {
  const auto& cells = view.turns->plan.cells;
  for (const auto& [run, side, member] : {std::tuple{&view.base, 0, &InterleavedCell::base},
                                          std::tuple{&view.run, 1, &InterleavedCell::now}}) {
    std::vector<std::string> ids;
    std::vector<std::string> own_ids;
    for (const InterleavedCell& cell : cells) ids.push_back((cell.*member).id());
    if (run->plan) {
      for (const CellKey& key : run->plan->cells) own_ids.push_back(key.id());
    }
    std::ranges::sort(ids);
    std::ranges::sort(own_ids);
    if (!run->plan || ids == own_ids) continue;
    broken(rule, "side {}: {} has other cells than {}plan.json", side_name(side), kBundleTurnsPlan,
           run->prefix);
  }
}

void check_passes_of_rounds(const BundleView& view, CheckedRule& rule) {
  const InterleavedPlan& plan = view.turns->plan;
  const std::uint32_t most = std::max(plan.pass_count, plan.pass_count_max);
  for (const RoundResult& round : view.turns->rounds) {
    const std::uint32_t count = round.cell.pass_count;
    if (!is_measured(round.cell) || (count >= plan.pass_count && count <= most)) continue;
    broken(rule, "round {}, side {}: {} passes, {} says {} to {}", round.round + 1,
           side_name(round.side), count, kBundleTurnsPlan, plan.pass_count, most);
  }
}

// The order in which processes were started follows from the plan's seed.
void check_order(const BundleView& view, CheckedRule& rule) {
  const InterleavedPlan& plan = view.turns->plan;
  std::map<std::uint32_t, std::vector<const RoundResult*>> by_round;
  for (const RoundResult& round : view.turns->rounds) by_round[round.round].push_back(&round);
  for (auto& [number, rounds] : by_round) {
    std::ranges::stable_sort(rounds, {}, &RoundResult::place);
    std::set<std::size_t> indices;
    std::vector<std::pair<std::size_t, std::uint32_t>> started;
    for (const RoundResult* round : rounds) {
      const auto found = std::ranges::find_if(plan.cells, [&](const InterleavedCell& cell) {
        return (round->side == 0 ? cell.base : cell.now) == round->cell.key;
      });
      if (found == plan.cells.end()) return;  // said elsewhere
      const auto index = static_cast<std::size_t>(found - plan.cells.begin());
      indices.insert(index);
      started.emplace_back(index, round->side);
      const bool takes_turns = plan.turns_by_pass && can_share_device(plan.cells[index].base) &&
                               can_share_device(plan.cells[index].now);
      if (round->in_turns && !takes_turns) {
        broken(rule, "round {}: passes that took turns, and the plan has none", number + 1);
      }
    }
    std::vector<std::pair<std::size_t, std::uint32_t>> meant;
    for (const Turn& turn : turns_of_round(plan, number, indices)) {
      meant.emplace_back(turn.cell_index, turn.side);
    }
    if (started == meant) continue;
    differs(view, view.run.file->environment,
            fmt::format("round {}: not in the order that the plan's seed gives", number + 1), rule);
  }
}

using TraceWork =
    std::tuple<std::string, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;
// By workload and seed.
using Works = std::map<std::tuple<std::string, std::string, std::uint64_t>, TraceWork>;

void check_work(const CellResult& cell, const std::string& label, Works& works, CheckedRule& rule) {
  if (!is_measured(cell)) return;
  const TraceWork work{cell.trace_hash, cell.event_count, cell.allocate_count,
                       cell.deallocate_count, cell.requested_bytes_peak};
  const auto [place, is_new] =
      works.try_emplace({cell.key.workload_text(), cell.key.workload_files, cell.key.seed}, work);
  if (!is_new && place->second != work) {
    broken(rule, label + name_of(cell.key) + ": other work than another cell of the same workload");
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
      broken(rule, "{}: {} rounds of side {}, {} are needed to see their spread", name_of(key),
             count, side_name(side), kPublishedPassCountMin);
    }
  }
}

void check_fit(const StoredRun& run, CheckedRule& rule) {
  const Environment& environment = run.file->environment;
  std::string build = environment.build_type;
  std::transform(build.begin(), build.end(), build.begin(),
                 [](unsigned char byte) { return static_cast<char>(std::tolower(byte)); });
  if (build.empty() || build == "debug") {
    broken(rule, "{}build type '{}': its latencies mean nothing", run.label,
           environment.build_type);
  }
  if (environment.git_sha.empty()) {
    rule.reservations.push_back(run.label + "built outside a checkout: its source is not known");
  } else if (environment.git_dirty) {
    rule.reservations.push_back(
        run.label +
        "built from a checkout with local changes: the commit alone does not reproduce it");
  }
  for (const std::string& warning : environment.warnings) {
    // What 'run --allow-debug' writes for builds with sanitizers.
    const bool unfit = warning.find("latencies mean nothing") != std::string::npos;
    unfit ? broken(rule, run.label + warning) : rule.notes.push_back(run.label + warning);
  }
}

}  // namespace

std::vector<const StoredRun*> runs_of(const BundleView& view) {
  std::vector<const StoredRun*> runs;
  for (const StoredRun* run : {&view.run, &view.base}) {
    if (run->file) runs.push_back(run);
  }
  return runs;
}

void results_whole(const BundleView& view, CheckedRule& rule) {
  check_whole(view.run, view, rule);
  if (view.base.there) check_whole(view.base, view, rule);
  if (!view.turns_problem.empty()) broken(rule, view.turns_problem);
}

void plan_complete(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  for (const StoredRun* run : runs_of(view)) {
    if (needs_plan_of(*run, rule)) check_all_measured(*run, rule);
  }
}

void plan_kept(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  for (const StoredRun* run : runs_of(view)) {
    if (needs_plan_of(*run, rule)) check_nothing_else(*run, pass_count_max(*run, view), rule);
  }
  if (!view.turns) return;
  check_plan_of_sides(view, rule);
  check_passes_of_rounds(view, rule);
  check_order(view, rule);
}

void work_same(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  // Another version may make other events of a workload, which the comparison says.
  const bool same =
      view.base.file && same_program(view.base.file->environment, view.run.file->environment);
  Works works;
  Works of_other_version;
  Works& of_base = same ? works : of_other_version;
  for (const CellResult& cell : view.run.file->cells) check_work(cell, "", works, rule);
  if (view.turns) {
    for (const RoundResult& round : view.turns->rounds) {
      check_work(round.cell, "", round.side == 0 ? of_base : works, rule);
    }
  }
  if (view.base.file) {
    for (const CellResult& cell : view.base.file->cells) {
      check_work(cell, view.base.label, of_base, rule);
    }
  }
  const auto manifest = view.bundle.files.find(kBundleManifest);
  if (manifest == view.bundle.files.end()) return;
  const Json said = parse_json(manifest->second.whole());
  const Json wanted = parse_json(bundle_manifest("", view.run.file->cells));
  if (!said.is_object() || !said.contains("traces") || said["traces"] != wanted["traces"]) {
    broken(rule, "bundle.json names other traces than results.jsonl");
  }
}

void samples_enough(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  if (view.turns) rounds_enough(view, rule);
  for (const StoredRun* run : runs_of(view)) {
    for (const CellResult& cell : run->file->cells) {
      const std::string name = run->label + name_of(cell.key);
      for (const std::string& finding :
           missing_samples(cell, view.turns ? 1 : kPublishedPassCountMin)) {
        broken(rule, name + ": " + finding);
      }
      for (const std::string& finding : marked_quantiles(cell)) {
        rule.notes.push_back(name + ": no claim: " + finding);
      }
    }
  }
}

void environment_fit(const BundleView& view, CheckedRule& rule) {
  if (!needs_run(view, rule)) return;
  for (const StoredRun* run : runs_of(view)) check_fit(*run, rule);
  if (!view.base.file) return;
  const EnvironmentVerdict verdict =
      compare_environments(view.base.file->environment, view.run.file->environment, {});
  if (!verdict.timed_reason.empty()) {
    rule.reservations.push_back(view.base.label + verdict.timed_reason);
  }
}

}  // namespace allocmark

// The order of an interleaved run.
#include "harness/core/run/interleave.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "harness/core/device/runtime_select.h"
#include "harness/core/run/device_sharing.h"
#include "harness/core/run/open_driver.h"
#include "harness/core/run/run.h"
#include "harness/core/run/run_group.h"
#include "harness/job/job.h"
#include "results/derived.h"

namespace allocmark {
namespace {

// A generator of its own for each place where chance decides, so that leaving out a cell changes
// nothing for the others.
Random random_for(const InterleavedPlan& plan, std::uint64_t kind, std::uint64_t index) {
  return Random(plan.order_seed * 0x9E3779B97F4A7C15U + kind * 0xD1B54A32D192ED03U + index);
}

CellSpec spec_of(const InterleavedPlan& plan, const InterleaveOptions& options, const Turn& turn,
                 std::uint32_t round) {
  const InterleavedCell& cell = plan.cells[turn.cell_index];
  CellSpec spec;
  spec.key = turn.side == 0 ? cell.base : cell.now;
  spec.pass_count = plan.pass_count;
  spec.verify = round == 0 ? options.verify : VerifyLevel::Off;
  spec.timeout_s = options.timeout_s;
  if (round == 0 && options.placements != nullptr) {
    spec.placements_path = options.placements->path(turn.cell_index, turn.side);
  }
  return spec;
}

// Cells of which exact numbers alone are compared, on a device that does not mind who else works.
bool is_untimed(const InterleavedPlan& plan, std::size_t cell_index) {
  const InterleavedCell& cell = plan.cells[cell_index];
  return cell.round_count_max < plan.round_count && is_simulated(cell.base.device) &&
         is_simulated(cell.now.device);
}

// The two turns of a cell.
RunGroupSpec group_of(const InterleavedPlan& plan, const InterleaveOptions& options,
                      const std::array<Turn, kSideCount>& turns, std::uint32_t round) {
  const bool untimed = is_untimed(plan, turns[0].cell_index);
  RunGroupSpec group{
      .takes_turns = plan.turns_by_pass,
      .pass_count_min = plan.pass_count,
      .pass_count_max = untimed ? plan.pass_count : std::max(plan.pass_count, plan.pass_count_max),
      .quiet_cpu = options.job_count == 1 && !untimed};
  const JobEnvironment environment = untimed ? JobEnvironment{kWarmHostCaches} : JobEnvironment{};
  for (const Turn& turn : turns) {
    group.steps.push_back({.spec = spec_of(plan, options, turn, round),
                           .program_path = plan.sides.at(turn.side).program_path,
                           .environment = environment});
    group.takes_turns = group.takes_turns && can_share_device(group.steps.back().spec.key);
  }
  // Else each chooses for itself, and neighbouring passes are on two processors.
  for (CellStep& step : group.steps) {
    step.spec.quiet_cpu = group.quiet_cpu && !group.takes_turns;
    step.spec.shares_device = shares_device(step.spec.key, options.job_count);
  }
  return group;
}

}  // namespace

std::vector<Turn> turns_of_round(const InterleavedPlan& plan, std::uint32_t round,
                                 const std::set<std::size_t>& cell_indices) {
  std::vector<std::size_t> order(cell_indices.begin(), cell_indices.end());
  Random shuffle = random_for(plan, 1, round);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[shuffle.below(left)]);
  }
  std::vector<Turn> turns;
  for (const std::size_t cell_index : order) {
    Random draw = random_for(plan, 2 + cell_index, round / 2);
    const auto drawn = static_cast<std::uint32_t>(draw.below(2));
    const std::uint32_t first = round % 2 == 0 ? drawn : 1 - drawn;
    turns.push_back({.cell_index = cell_index, .side = first});
    turns.push_back({.cell_index = cell_index, .side = 1 - first});
  }
  return turns;
}

std::vector<RunGroupSpec> groups_of_round(const InterleavedPlan& plan,
                                          const InterleaveOptions& options,
                                          const std::vector<Turn>& turns, std::uint32_t round) {
  std::vector<RunGroupSpec> groups;
  for (std::size_t i = 0; i + 1 < turns.size(); i += kSideCount) {
    groups.push_back(group_of(plan, options, {turns[i], turns[i + 1]}, round));
  }
  return groups;
}

bool run_interleaved(const InterleavedPlan& plan, const InterleaveOptions& options,
                     const Look& look, const std::function<void(const RoundResult&)>& on_result) {
  std::set<std::size_t> going;
  std::vector<std::string> devices;
  for (std::size_t i = 0; i < plan.cells.size(); ++i) {
    going.insert(i);
    devices.push_back(plan.cells[i].now.device);
  }
  const OpenDriver driver(devices, plan.sides.back().program_path);
  const std::vector<std::uint32_t> looks = look_rounds(plan);
  std::uint64_t place = 0;
  KnownPackings packings;
  const auto run_some = [&](std::uint32_t round, const std::set<std::size_t>& cell_indices,
                            std::uint32_t job_count) {
    const std::vector<Turn> turns = turns_of_round(plan, round, cell_indices);
    const bool completed =
        run_groups(groups_of_round(plan, options, turns, round), job_count,
                   /*gpu_count=*/0, options.interrupt, packings,
                   [&](std::size_t group, const GroupResult& result) {
                     const std::size_t index = group * kSideCount + result.step_index;
                     const bool measured = is_measured(result.cell);
                     if (!measured) going.erase(turns[index].cell_index);
                     if (round == 0 && options.placements != nullptr) {
                       options.placements->note_ended(turns[index].cell_index, measured);
                     }
                     on_result({.round = round,
                                .side = turns[index].side,
                                .place = place + index,
                                .in_turns = result.in_turns,
                                .cell = result.cell});
                   });
    place += turns.size();
    return completed;
  };
  for (std::uint32_t round = 0; round < looks.back() && !going.empty(); ++round) {
    std::erase_if(going, [&](std::size_t i) { return round >= plan.cells[i].round_count_max; });
    std::set<std::size_t> timed;
    std::set<std::size_t> untimed;
    for (const std::size_t i : going) (is_untimed(plan, i) ? untimed : timed).insert(i);
    if (!untimed.empty()) {
      const std::uint32_t job_count = default_job_count(plan.cells[*untimed.begin()].now.device);
      if (!run_some(round, untimed, std::max(options.job_count, job_count))) return false;
    }
    if (!timed.empty() && !run_some(round, timed, options.job_count)) return false;
    const bool at_look =
        round + 1 < looks.back() && std::find(looks.begin(), looks.end(), round + 1) != looks.end();
    if (!at_look) continue;
    const std::set<std::size_t> open = look();
    std::erase_if(going, [&](std::size_t i) { return !open.contains(i); });
  }
  return true;
}

}  // namespace allocmark

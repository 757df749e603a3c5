// See run_group.h.
#include "harness/core/run/run_group.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "harness/core/measure/quiet_cpu.h"
#include "harness/core/run/cell_process.h"

namespace allocmark {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

RunGroup::RunGroup(RunGroupSpec spec) : spec_(std::move(spec)) {
  for (const CellStep& step : spec_.steps) {
    Member& member = members_.emplace_back();
    member.step = step;
    member.step.spec.takes_turns = spec_.takes_turns;
  }
  for (const Kind kind : {Kind::Start, Kind::Check}) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (kind == Kind::Start || spec_.takes_turns) actions_.push_back({kind, i});
    }
  }
}

bool RunGroup::ended() const {
  return std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.ended; });
}

std::vector<GroupResult> RunGroup::take_results() { return std::exchange(results_, {}); }

void RunGroup::add_children(std::vector<const ChildProcess*>& children) const {
  for (const Member& member : members_)
    if (member.child != nullptr) children.push_back(member.child.get());
}

void RunGroup::advance() {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].child == nullptr) continue;
    if (const std::optional<ChildOutcome> outcome = members_[i].child->advance()) {
      end_member(i, cell_result(members_[i].step.spec, *outcome));
    }
  }
  if (at_work_ && members_[*at_work_].child->waits_for_turn()) at_work_.reset();
  while (!at_work_ && !ended()) {
    if (actions_.empty()) plan_next();
    const Action action = actions_.front();
    actions_.pop_front();
    if (!members_[action.member_index].ended) run(action);
  }
}

bool RunGroup::enough_passes() const {
  const std::chrono::duration<double> passed = Clock::now() - passes_began_;
  return pair_count_ >= spec_.pass_count_max ||
         (pair_count_ >= spec_.pass_count_min && passed.count() >= kTurnSecondsMin);
}

// A B, B A, A B ...: neither is always the one that finds the caches as the other left them.
void RunGroup::plan_next() {
  if (pair_count_ == 0) passes_began_ = Clock::now();
  const bool finishes = enough_passes();
  if (!finishes && spec_.quiet_cpu) cpu_ = QuietCpu().move();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const bool swapped = !finishes && pair_count_ % 2 == 1;
    const std::size_t index = swapped ? members_.size() - 1 - i : i;
    actions_.push_back({finishes ? Kind::Finish : Kind::Pass, index});
  }
  if (!finishes) ++pair_count_;
}

void RunGroup::run(const Action& action) {
  Member& member = members_[action.member_index];
  at_work_ = action.member_index;
  switch (action.kind) {
    case Kind::Start:
      start(action.member_index);
      return;
    case Kind::Check:
      member.child->give_turn({});
      return;
    case Kind::Pass:
      member.passes_given = true;
      member.child->give_turn({.cpu = cpu_});
      return;
    case Kind::Finish:
      member.child->give_turn({.last = 1});
      return;
  }
}

// Or says as its result why it could not be started.
void RunGroup::start(std::size_t index) {
  Member& member = members_[index];
  try {
    JobEnvironment environment = member.step.environment;
    if (spec_.visible_gpu) environment.emplace_back("CUDA_VISIBLE_DEVICES", *spec_.visible_gpu);
    member.child = std::make_unique<ChildProcess>(
        cell_command(member.step.spec, member.step.program_path, environment));
  } catch (const Error& error) {
    end_member(index, without_result(member.step.spec, error.what()));
  }
}

void RunGroup::end_member(std::size_t index, CellResult cell) {
  members_[index].child.reset();
  members_[index].ended = true;
  if (at_work_ == index) at_work_.reset();
  const bool all_had_passes =
      std::all_of(members_.begin(), members_.end(), [](const Member& m) { return m.passes_given; });
  results_.push_back({.step_index = index,
                      .cell = std::move(cell),
                      .in_turns = members_.size() > 1 && all_had_passes});
}

}  // namespace allocmark

#include "harness/tools/why/held_blocks.h"

#include <algorithm>
#include <unordered_map>

namespace allocmark {
namespace {

// Whether one of the ascending numbers lies between the two.
bool has_between(const std::vector<std::uint64_t>& numbers, std::uint64_t begin,
                 std::uint64_t end) {
  const auto found = std::ranges::upper_bound(numbers, begin);
  return found != numbers.end() && *found < end;
}

bool is_optimizer(StackKind kind) {
  return kind == StackKind::Optimizer || kind == StackKind::OptimizerState;
}

bool may_be_backward(StackKind kind) {
  return kind == StackKind::None || kind == StackKind::Backward || kind == StackKind::Gradients ||
         kind == StackKind::Recompute;
}

}  // namespace

HeldBlocks::HeldBlocks(const DeviceHistory& history) {
  for (std::uint32_t stack = 0; stack < history.snapshot().stacks.size(); ++stack)
    kinds_.push_back(kind_of_stack(history.snapshot(), stack));
  collect(history);
  find_phases();
}

void HeldBlocks::collect(const DeviceHistory& history) {
  const auto never = static_cast<std::uint32_t>(history.size() + 1);
  std::unordered_map<std::uint64_t, std::size_t> live;  // address -> index into blocks_
  std::unordered_map<std::uint64_t, std::uint32_t> final_stacks;
  for (const SnapshotBlock& block : history.snapshot().blocks)
    if (block.state != SnapshotBlockState::Inactive) final_stacks[block.address] = block.stack;
  std::uint64_t live_bytes = 0;
  for (const EarlierBlock& block : history.earlier_blocks()) {
    if (block.pending) continue;
    live[block.address] = blocks_.size();
    live_bytes += block.requested_bytes;
    // Only one that is still there has its stack.
    blocks_.push_back({.size_bytes = block.requested_bytes,
                       .end = never,
                       .stack = block.size_bytes > 0 ? final_stacks[block.address] : kNoStack});
  }
  live_bytes_.push_back(live_bytes);
  for (std::uint32_t i = 0; i + 1 < never; ++i) {
    const SnapshotEntry& entry = history[i];
    if (entry.action == SnapshotAction::Alloc && entry.synthetic == 0) {
      live[entry.address] = blocks_.size();
      live_bytes += entry.size_bytes;
      blocks_.push_back(
          {.size_bytes = entry.size_bytes, .begin = i + 1, .end = never, .stack = entry.stack});
    }
    const auto found =
        entry.action == SnapshotAction::FreeRequested ? live.find(entry.address) : live.end();
    if (found != live.end()) {
      blocks_[found->second].end = i + 1;
      live_bytes -= blocks_[found->second].size_bytes;
      live.erase(found);
    }
    live_bytes_.push_back(live_bytes);
  }
}

// Which requests tell that a backward pass or an optimizer's step is over. The backward pass runs
// on a thread of its own, without Python frames, while the program waits.
void HeldBlocks::find_phases() {
  std::uint64_t with_stack_count = 0;
  for (const HeldBlock& block : blocks_) {
    const StackKind of = kind(block);
    with_stack_count += of != StackKind::None ? 1 : 0;
    if (of == StackKind::Weights || block.begin == 0) weight_sizes_.insert(block.size_bytes);
    if (block.begin == 0) continue;
    if (!may_be_backward(of)) backward_ends_.push_back(block.begin);
    if (of == StackKind::Forward)
      first_forward_ = std::min<std::uint64_t>(first_forward_, block.begin);
    if (is_optimizer(of)) {
      optimizer_steps_.push_back(block.begin);
    } else if (of != StackKind::None && of != StackKind::Scratch) {
      optimizer_ends_.push_back(block.begin);
    }
  }
  has_stacks_ = with_stack_count * 20 >= blocks_.size() && with_stack_count > 0;
}

// Where the last step before the moment begins: the last valley of the memory in use that is at
// least three quarters as deep as the deepest one; those inside a step are less deep. A valley is
// as deep as the lower of the two highs around it stands above it. 0 where the memory in use only
// grew.
std::uint64_t HeldBlocks::last_low(std::uint64_t moment, std::uint64_t wanted_bytes) const {
  constexpr double kDepthShareMin = 0.75, kDropMin = 0.1;
  std::vector<std::uint64_t> depths(moment + 1);
  std::uint64_t high_bytes = 0;
  for (std::uint64_t at = 0; at <= moment; ++at) {
    high_bytes = std::max(high_bytes, live_bytes_[at]);
    depths[at] = high_bytes;
  }
  const std::uint64_t highest_bytes = high_bytes;
  std::uint64_t deepest = 0;
  high_bytes = live_bytes_[moment] + wanted_bytes;
  for (std::uint64_t at = moment + 1; at-- > 0;) {
    high_bytes = std::max(high_bytes, live_bytes_[at]);
    depths[at] = std::min(depths[at], high_bytes) - live_bytes_[at];
    deepest = std::max(deepest, depths[at]);
  }
  if (static_cast<double>(deepest) < kDropMin * static_cast<double>(highest_bytes)) return 0;
  const auto enough = static_cast<std::uint64_t>(kDepthShareMin * static_cast<double>(deepest));
  std::uint64_t at = moment;
  while (depths[at] < enough) --at;
  std::uint64_t low = at;
  for (; at > 0 && depths[at] >= enough; --at)
    if (live_bytes_[at] < live_bytes_[low]) low = at;
  return low;
}

void HeldBlocks::classify(std::uint64_t moment, std::uint64_t wanted_bytes) {
  low_ = has_stacks_ ? 0 : last_low(moment, wanted_bytes);
  for (HeldBlock& block : blocks_) block.owner = owner_of(block, moment);
}

Owner HeldBlocks::owner_of(const HeldBlock& block, std::uint64_t moment) const {
  const auto outlives = [&](const std::vector<std::uint64_t>& ends) {
    return has_between(ends, block.begin, block.end);
  };
  const bool as_weight = weight_sizes_.contains(block.size_bytes);
  switch (kind(block)) {
    case StackKind::Weights:
      return Owner::Weights;
    case StackKind::OptimizerState:
      return Owner::OptimizerState;
    case StackKind::Optimizer:
      return outlives(optimizer_ends_) ? Owner::OptimizerState : Owner::Scratch;
    case StackKind::Gradients:
      return Owner::Gradients;
    case StackKind::Backward:
      return outlives(backward_ends_) || (as_weight && block.lives_at(moment)) ? Owner::Gradients
                                                                               : Owner::Scratch;
    case StackKind::Forward:
      return has_between(optimizer_steps_, block.begin, block.end) ? Owner::KeptForward
                                                                   : Owner::Activations;
    case StackKind::Recompute:
      return Owner::Activations;
    case StackKind::KvCache:
      return Owner::KvCache;
    case StackKind::Inputs:
      return Owner::Inputs;
    case StackKind::Scratch:
      return Owner::Scratch;
    case StackKind::Own:
      return Owner::OwnCode;
    case StackKind::None:
      break;
  }
  if (block.begin == 0) return Owner::Before;
  if (!has_stacks_) {
    if (low_ == 0) return Owner::Unknown;
    return block.begin <= low_ && low_ < block.end ? Owner::Kept : Owner::Recent;
  }
  const bool in_backward = block.begin > first_forward_;
  if (in_backward && as_weight && (outlives(backward_ends_) || block.lives_at(moment)))
    return Owner::Gradients;
  return in_backward && !outlives(backward_ends_) && !block.lives_at(moment) ? Owner::Scratch
                                                                             : Owner::Unknown;
}

}  // namespace allocmark

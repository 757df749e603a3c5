// What optimizers and state dicts see of a model in shards; see sharded_parameters.h.
#include <algorithm>
#include <map>
#include <utility>

#include "workloads/model/sharded_parameters.h"

namespace allocmark {
std::vector<OptimizedTensor> ShardedParameters::optimized(
    const std::vector<std::size_t>& order) const {
  return tensors_of(order, &Shard::count, true);
}

std::vector<OptimizedTensor> ShardedParameters::parts(const std::vector<std::size_t>& order) const {
  return tensors_of(order, &Shard::padded_count, false);
}

std::vector<OptimizedTensor> ShardedParameters::tensors_of(const std::vector<std::size_t>& order,
                                                           std::uint64_t Shard::*count,
                                                           bool only_trained) const {
  std::map<std::size_t, std::uint64_t> counts;
  for (const Unit& unit : units_) {
    for (const Shard& shard : unit.shards) {
      if (!only_trained || is_trained(shard)) counts[shard.parameter] = shard.*count;
    }
  }
  std::vector<OptimizedTensor> tensors;
  for (const std::size_t parameter : order) {
    const auto found = counts.find(parameter);
    // A flat parameter's without elements on this rank have no gradient, and so no state.
    if (found == counts.end() || (found->second == 0 && !single())) continue;
    const Parameter& own = tape_->parameters()[parameter];
    tensors.push_back({.count = found->second,
                       .width = width_,
                       .is_replicated = own.cuts_gradient && own.rows == 0,
                       .is_distributed = single()});
  }
  return tensors;
}

void ShardedParameters::gather_all() {
  for (Unit& unit : units_) {
    if (unit.is_gathered) continue;
    gather(&unit);
    finish_gather(&unit, false);
    release(&unit);
  }
}

// FSDP 1's FULL_STATE_DICT: the root's flat parameter is whole until all is copied, a block's while
// its own parameters are. In the type of the shards, also where computation is in another.
std::vector<Tensor> ShardedParameters::whole_state(const std::vector<std::size_t>& order,
                                                   std::size_t table_names, bool has_bias_name) {
  drop_old_gradients();
  TensorPool& pool = tape_->pool();
  std::vector<Tensor> state;
  const auto copy = [&](std::size_t parameter) {
    state.push_back(
        pool.make(tape_->parameters()[parameter].count * width_, TensorKind::Workspace));
  };
  const auto flat = [&](const Unit& unit) {
    return pool.make(unit.own_count * settings_.ranks * width_, TensorKind::Parameter);
  };
  const Unit& root = units_[0];
  const Tensor whole = flat(root);
  for (std::size_t i = 1; i < units_.size(); ++i) {
    const Tensor own = flat(units_[i]);
    for (const Shard& shard : units_[i].shards) copy(shard.parameter);
  }
  for (const std::size_t parameter : order) {
    const bool is_of_root =
        std::any_of(root.shards.begin(), root.shards.end(),
                    [&](const Shard& shard) { return shard.parameter == parameter; });
    if (is_of_root) copy(parameter);
  }
  // The same tensors under further names: the first one is the table.
  for (std::size_t i = 0; i < table_names; ++i) copy(root.shards.front().parameter);
  if (has_bias_name) copy(root.shards.back().parameter);
  return state;
}

}  // namespace allocmark

// ShardedParameters where the model is made in shards and never as a whole: what the set-up
// allocates instead.
#include <map>
#include <utility>

#include "workloads/model/sharded_parameters.h"

namespace allocmark {

// Deferred initialisation of a flat unit: FSDP 1 makes its parameters whole before it joins them,
// zero.Init one after the other, of which each rank keeps its part.
void ShardedParameters::make_whole(Unit* unit, const std::vector<std::size_t>& parameters) {
  TensorPool& pool = tape_->pool();
  for (const std::size_t index : parameters) {
    Parameter& parameter = tape_->parameters()[index];
    if (parameter.count == 0) continue;
    parameter.data = pool.make(parameter.count * parameter.width, TensorKind::Parameter);
    const bool is_shared =
        settings_.kind == DataParallelKind::Zero3 && parameter.count >= kPersistentElements;
    if (!is_shared) continue;
    const std::uint64_t part = (parameter.count + settings_.ranks - 1) / settings_.ranks;
    unit->own.push_back(pool.make(part * parameter.width, TensorKind::Parameter));
    parameter.data.reset();
  }
}

// FSDP 2 shards parameters on the meta device; to_empty() then makes this rank's rows of each, in
// the model's order. At a block's end, and the root's, rows that the ranks do not share evenly are
// copied to where all have as many.
void ShardedParameters::make_single_shards() {
  std::map<std::size_t, std::pair<Unit*, std::uint64_t>> shards;
  for (Unit& unit : units_) {
    for (const Shard& shard : unit.shards) {
      const bool is_empty = shard.count == 0;  // padded at once
      shards[shard.parameter] = {&unit, is_empty ? shard.padded_count : shard.count};
    }
  }
  Unit* const root = &units_[0];
  Unit* block = root;
  for (auto& [parameter, shard] : shards) {
    Unit* const unit = shard.first;
    if (block != root && unit != block) pad_shards(block);
    block = unit;
    unit->own.push_back(tape_->pool().make(shard.second * width_, TensorKind::Parameter));
  }
  if (block != root) pad_shards(block);
  pad_shards(root);
}

void ShardedParameters::pad_shards(Unit* unit) {
  for (std::size_t i = 0; i < unit->shards.size(); ++i) {
    const Shard& shard = unit->shards[i];
    if (shard.count == 0 || shard.count == shard.padded_count) continue;
    unit->own[i] = tape_->pool().make(shard.padded_count * width_, TensorKind::Parameter);
  }
}

}  // namespace allocmark

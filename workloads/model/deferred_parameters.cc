// What ShardedParameters' set-up makes: a flat parameter; and where the model is made in shards and
// never as a whole, what stands instead of it.
#include <algorithm>

#include "workloads/model/sharded_parameters.h"

namespace allocmark {

// The flat parameter, and this rank's part of it. FSDP 1 fills it up with ones that are multiplied
// by a number.
void ShardedParameters::flatten(Unit* unit, std::uint64_t element_count) {
  TensorPool& pool = tape_->pool();
  const std::uint64_t flat_count = unit->own_count * settings_.ranks;
  Tensor filler;
  for (int i = 0; i < 2 && settings_.kind == DataParallelKind::Fsdp1; ++i) {
    filler = pool.make((flat_count - element_count) * width_, TensorKind::Parameter);
  }
  const Tensor flat = pool.make(flat_count * width_, TensorKind::Parameter);
  unit->own.push_back(pool.make(unit->own_count * width_, TensorKind::Parameter));
}

// Deferred initialisation of a flat unit: FSDP 1 makes its parameters whole before it joins them.
void ShardedParameters::make_whole(const std::vector<std::size_t>& parameters) {
  TensorPool& pool = tape_->pool();
  for (const std::size_t index : parameters) {
    Parameter& parameter = tape_->parameters()[index];
    if (parameter.count == 0) continue;
    parameter.data = pool.make(parameter.count * parameter.width, TensorKind::Parameter);
  }
}

// FSDP 2 shards parameters on the meta device; to_empty() then makes this rank's rows of each, in
// the model's order. At a block's end, and the root's, rows that the ranks do not share evenly are
// copied to where all have as many.
void ShardedParameters::make_single_shards(const std::vector<LateTensor>& late,
                                           std::vector<Tensor>* buffers) {
  TensorPool& pool = tape_->pool();
  // DTensor tries its first operators with tensors that have no memory; each such try begins with
  // one of four bytes (torch/_subclasses/fake_tensor.py, init_gpu_context).
  for (int i = 0; i < 2; ++i) const Tensor context = pool.make(4, TensorKind::Workspace);
  Unit* const root = &units_[0];
  const auto made = [&](const Shard& shard) {
    return pool.make(shard.count * width_, TensorKind::Parameter);
  };
  auto behind = late.begin();
  auto buffer = buffers->begin();
  const auto make = [&](Unit* unit, const Shard& shard) {
    unit->own.push_back(made(shard));
    for (; behind != late.end() && behind->behind == shard.parameter; ++behind) {
      if (behind->buffer_bytes > 0) {
        *buffer++ = pool.make(behind->buffer_bytes, TensorKind::Unknown);
        continue;
      }
      const auto again =
          std::find_if(root->shards.begin(), root->shards.end(),
                       [&](const Shard& one) { return one.parameter == behind->again; });
      root->own[static_cast<std::size_t>(again - root->shards.begin())] = made(*again);
    }
  };
  auto next = root->shards.begin();
  for (std::size_t i = 1; i < units_.size(); ++i) {
    Unit* const block = &units_[i];
    while (next != root->shards.end() && next->parameter < block->shards.front().parameter) {
      make(root, *next++);
    }
    for (const Shard& shard : block->shards) make(block, shard);
    pad_shards(block);
  }
  while (next != root->shards.end()) make(root, *next++);
  pad_shards(root);
}

void ShardedParameters::pad_shards(Unit* unit) {
  for (std::size_t i = 0; i < unit->shards.size(); ++i) {
    const Shard& shard = unit->shards[i];
    if (shard.count == shard.padded_count) continue;
    unit->own[i] = tape_->pool().make(shard.padded_count * width_, TensorKind::Parameter);
  }
}

}  // namespace allocmark

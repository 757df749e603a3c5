#include "workloads/model/sharded_parameters.h"

#include <algorithm>
#include <utility>

#include "workloads/model/collectives.h"

namespace allocmark {
namespace {

// ZeRO-3 leaves parameters with fewer elements whole on every rank.
constexpr std::uint64_t kPersistentElements = 100'000;

std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

constexpr std::uint64_t hook_code(std::size_t unit, bool after) {
  return unit * 2 + (after ? 1 : 0);
}

}  // namespace

// Every rank keeps a part of each parameter's rows (FSDP2), or of all elements in a row.
void ShardedParameters::wrap_unit(Unit* unit, const std::vector<std::size_t>& parameters) {
  TensorPool& pool = tape_->pool();
  const std::uint64_t ranks = settings_.ranks;
  std::uint64_t total = 0;
  for (const std::size_t index : parameters) {
    Parameter& parameter = tape_->parameters()[index];
    width_ = parameter.width;
    Shard shard{.parameter = index};
    if (single()) {
      const std::uint64_t rows = parameter.rows == 0 ? parameter.count : parameter.rows;
      const std::uint64_t row_elements = parameter.count / rows;
      const std::uint64_t part = divided_up(rows, ranks);
      const std::uint64_t begin = std::min(rows, part * rank_);
      shard.padded_count = part * row_elements;
      shard.count = (std::min(rows, begin + part) - begin) * row_elements;
      unit->own.push_back(pool.make(shard.padded_count * width_, TensorKind::Parameter));
    } else if (settings_.kind == DataParallelKind::Zero3 && parameter.count < kPersistentElements) {
      continue;
    }
    total += single() ? shard.padded_count : parameter.count;
    unit->shards.push_back(shard);
  }
  unit->own_count = single() ? total : divided_up(total, ranks);
  if (!single() && total > 0) {
    const Tensor flat = pool.make(unit->own_count * ranks * width_, TensorKind::Parameter);
    for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].data.reset();
    unit->own.push_back(pool.make(unit->own_count * width_, TensorKind::Parameter));
  }
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].data.reset();
  // Computation is in the gathered type.
  if (!settings_.gathers_narrow) return;
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].width = 2;
}

void ShardedParameters::wrap(const std::vector<ParameterRange>& layers) {
  units_.resize(layers.size() + 1);
  std::vector<std::size_t> root;
  std::size_t next = 0;
  for (const ParameterRange& layer : layers) {
    for (; next < layer.first; ++next) root.push_back(next);
    next = layer.first + layer.count;
  }
  for (; next < tape_->parameters().size(); ++next) root.push_back(next);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::vector<std::size_t> parameters;
    for (std::size_t p = 0; p < layers[i].count; ++p) parameters.push_back(layers[i].first + p);
    wrap_unit(&units_[i + 1], parameters);
  }
  wrap_unit(&units_[0], root);
  if (settings_.kind == DataParallelKind::Zero3) wrap_zero3();
}

void ShardedParameters::wrap_zero3() {
  TensorPool& pool = tape_->pool();
  std::uint64_t own = 0;
  for (const Unit& unit : units_) own += unit.own_count;
  master_ = pool.make(own * 4, TensorKind::OptimizerState);
  reduction_ = pool.make(settings_.reduce_elements * width_, TensorKind::Communication);
  own_gradients_ = pool.make(own * width_, TensorKind::Gradient);
}

void ShardedParameters::gather(Unit* unit) {
  if (unit->is_gathered || unit->incoming || unit->own_count == 0) return;
  TensorPool& pool = tape_->pool();
  const std::uint64_t size_bytes = unit->own_count * settings_.ranks * gathered_bytes();
  Tensor narrow;
  if (settings_.gathers_narrow) {
    narrow = pool.make(unit->own_count * 2, TensorKind::Communication, kGatherStream);
  }
  unit->incoming = pool.make(
      size_bytes, single() ? TensorKind::Communication : TensorKind::Parameter, kGatherStream);
  tape_->communicate(size_bytes, kGatherStream);
}

void ShardedParameters::finish_gather(Unit* unit, bool in_forward) {
  if (!unit->incoming) return;
  unit->is_gathered = true;
  if (!single()) {
    unit->full = std::move(unit->incoming);
    return;
  }
  // The last unit's buffer goes only now, so that its copy may overlap with this unit's gather.
  if (in_forward) last_gathered_.reset();
  for (const Shard& shard : unit->shards) {
    tape_->parameters()[shard.parameter].data = tape_->pool().make(
        shard.padded_count * settings_.ranks * gathered_bytes(), TensorKind::Parameter);
  }
  if (in_forward) {
    last_gathered_ = std::move(unit->incoming);
  } else {
    unit->incoming.reset();
  }
}

void ShardedParameters::release(Unit* unit) {
  if (!unit->is_gathered) return;
  unit->is_gathered = false;
  if (single()) {
    for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].data.reset();
    return;
  }
  // It was made on the gather's stream and used on the one that computes.
  if (settings_.records) tape_->pool().record(unit->full, 0);
  unit->full.reset();
}

void ShardedParameters::begin_forward() {
  gather(&units_[0]);
  finish_gather(&units_[0], true);
}

Var ShardedParameters::begin_layer(std::size_t layer, Var input) {
  Unit& unit = units_[layer + 1];
  gather(&unit);
  finish_gather(&unit, true);
  // Only ZeRO-3 looks ahead in the forward.
  if (settings_.kind == DataParallelKind::Zero3 && settings_.prefetch &&
      layer + 2 < units_.size()) {
    gather(&units_[layer + 2]);
  }
  return tape_->hooked(std::move(input), hook_code(layer + 1, true));
}

Var ShardedParameters::end_layer(std::size_t layer, Var output) {
  if (settings_.reshard) release(&units_[layer + 1]);
  return tape_->hooked(std::move(output), hook_code(layer + 1, false));
}

void ShardedParameters::end_forward() { last_gathered_.reset(); }

void ShardedParameters::begin_backward() { pre_backward(0); }

void ShardedParameters::on_hook(std::uint64_t code) {
  if (code % 2 == 0) {
    pre_backward(code / 2);
  } else {
    post_backward(code / 2);
  }
}

void ShardedParameters::pre_backward(std::size_t unit) {
  gather(&units_[unit]);
  finish_gather(&units_[unit], false);
  // Backwards go from the last block to the first; the root is first in both.
  const std::size_t next = unit == 0 ? units_.size() - 1 : unit - 1;
  if (settings_.prefetch && next > 0) gather(&units_[next]);
}

void ShardedParameters::keep_gradient(Unit* unit, Tensor reduced) {
  // A second micro batch is added in place.
  if (!unit->gradient) unit->gradient = std::move(reduced);
}

void ShardedParameters::reduce(Unit* unit) {
  TensorPool& pool = tape_->pool();
  last_reduced_.reset();
  // Gradients of two bytes are reduced in four.
  const std::uint64_t reduced_width = settings_.gathers_narrow ? 4 : width_;
  Tensor input =
      pool.make(unit->own_count * settings_.ranks * reduced_width, TensorKind::Communication);
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].gradient.reset();
  Tensor output = pool.make(unit->own_count * reduced_width, TensorKind::Gradient, kReduceStream);
  tape_->communicate(input.size_bytes(), kReduceStream);
  last_reduced_ = std::move(input);
  keep_gradient(unit, std::move(output));
}

// The gradients of the views are joined to the flat parameter's.
void ShardedParameters::reduce_flat(Unit* unit) {
  TensorPool& pool = tape_->pool();
  const std::uint64_t size_bytes = unit->own_count * settings_.ranks * gathered_bytes();
  Tensor flat = pool.make(size_bytes, TensorKind::Gradient);
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].gradient.reset();
  Tensor wide;
  if (settings_.gathers_narrow) {
    wide = pool.make(size_bytes * 2, TensorKind::Communication, kReduceStream);
  }
  Tensor output = pool.make(unit->own_count * width_, TensorKind::Gradient, kReduceStream);
  tape_->communicate(size_bytes, kReduceStream);
  if (settings_.records) pool.record(flat, kReduceStream);
  flat.reset();
  wide.reset();
  keep_gradient(unit, std::move(output));
}

void ShardedParameters::post_backward(std::size_t index) {
  Unit& unit = units_[index];
  release(&unit);
  if (unit.own_count == 0) return;
  if (settings_.kind == DataParallelKind::Zero3) {
    // Copied to the reduction's buffer, and its own part added to the partition's gradients.
    for (const Shard& shard : unit.shards) tape_->parameters()[shard.parameter].gradient.reset();
    tape_->communicate(unit.own_count * settings_.ranks * width_, kReduceStream);
  } else if (single()) {
    reduce(&unit);
  } else {
    reduce_flat(&unit);
  }
}

void ShardedParameters::end_backward() {
  post_backward(0);
  last_reduced_.reset();
}

std::vector<OptimizedTensor> ShardedParameters::optimized() const {
  std::vector<OptimizedTensor> tensors;
  if (settings_.kind == DataParallelKind::Zero3) {
    return {{.count = master_.size_bytes() / 4, .width = 4}};
  }
  for (const Unit& unit : units_) {
    if (!single() && unit.own_count > 0) {
      tensors.push_back({.count = unit.own_count, .width = width_});
    }
    if (!single()) continue;
    for (const Shard& shard : unit.shards)
      tensors.push_back({.count = shard.count, .width = width_});
  }
  return tensors;
}

void ShardedParameters::begin_step() {
  if (settings_.kind != DataParallelKind::Zero3) return;
  step_gradient_ = tape_->pool().make(master_.size_bytes(), TensorKind::Gradient);
}

void ShardedParameters::end_step() { step_gradient_.reset(); }

void ShardedParameters::release_gradients() {
  for (Unit& unit : units_) unit.gradient.reset();
}

void ShardedParameters::gather_all() {
  for (Unit& unit : units_) {
    if (unit.is_gathered) continue;
    gather(&unit);
    finish_gather(&unit, false);
    release(&unit);
  }
}

void ShardedParameters::clear() {
  units_.clear();
  for (Tensor* tensor :
       {&last_gathered_, &last_reduced_, &master_, &reduction_, &own_gradients_, &step_gradient_}) {
    tensor->reset();
  }
}

}  // namespace allocmark

#include "workloads/model/sharded_parameters.h"

#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/collectives.h"
#include "workloads/model/copy_tables.h"

namespace allocmark {
namespace {

// FSDP 1 casts on one stream and gathers and reduces on two others; version 2 gathers on the first.
constexpr std::uint32_t kFlatGatherStream = 2;
constexpr std::uint32_t kFlatReduceStream = 3;

enum class Moment : std::uint8_t { BeforeBackward, AfterBackward, BeforeRerun };
constexpr std::uint64_t kMoments = 3;
constexpr std::uint64_t hook_code(std::size_t unit, Moment moment) {
  return unit * kMoments + static_cast<std::uint64_t>(moment);
}

}  // namespace

// Every rank keeps a part of each parameter's rows (FSDP 2), or of all elements in a row.
void ShardedParameters::wrap_unit(Unit* unit, const std::vector<std::size_t>& parameters) {
  TensorPool& pool = tape_->pool();
  const std::uint64_t ranks = settings_.ranks;
  std::uint64_t total = 0;
  if (settings_.defers_parameters && !single()) make_whole(parameters);
  for (const std::size_t index : parameters) {
    const Parameter& parameter = tape_->parameters()[index];
    width_ = parameter.width;
    Shard shard{.parameter = index};
    if (single()) {
      const std::uint64_t rows = parameter.rows == 0 ? parameter.count : parameter.rows;
      const std::uint64_t row_elements = parameter.count / rows;
      const std::uint64_t part = divided_up(rows, ranks);
      const std::uint64_t begin = std::min(rows, part * rank_);
      shard.padded_count = part * row_elements;
      shard.count = (std::min(rows, begin + part) - begin) * row_elements;
      if (!settings_.defers_parameters) {
        unit->own.push_back(pool.make(shard.padded_count * width_, TensorKind::Parameter));
      }
    }
    total += single() ? shard.padded_count : parameter.count;
    unit->shards.push_back(shard);
  }
  unit->own_count = single() ? total : divided_up(total, ranks);
  std::uint64_t trained = 0;
  for (const Shard& shard : unit->shards) {
    const std::uint64_t whole = tape_->parameters()[shard.parameter].count;
    if (is_trained(shard)) trained += single() ? shard.padded_count : whole;
  }
  unit->trained_count = single() ? trained : divided_up(trained, ranks);
  if (!single() && total > 0) {
    flatten(unit, total);
    set_own_parts(unit);
  }
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].data.reset();
  // Computation is in the gathered type.
  if (!settings_.gathers_narrow) return;
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].width = 2;
}

// Which elements of each parameter lie in this rank's part of the flat one.
void ShardedParameters::set_own_parts(Unit* unit) const {
  const std::uint64_t begin = unit->own_count * rank_;
  const std::uint64_t end = begin + unit->own_count;
  std::uint64_t position = 0;
  for (Shard& shard : unit->shards) {
    const std::uint64_t first = std::max(position, begin);
    position += tape_->parameters()[shard.parameter].count;
    const std::uint64_t last = std::min(position, end);
    shard.count = first < last ? last - first : 0;
  }
}

void ShardedParameters::wrap(const std::vector<std::vector<std::size_t>>& layers,
                             const std::vector<LateTensor>& late, std::vector<Tensor>* buffers) {
  tape_->set_keeps_casts(settings_.kind != DataParallelKind::Fsdp1);
  tape_->set_keeps_leaf(!single());
  units_.resize(layers.size() + 1);
  std::vector<bool> is_inside(tape_->parameters().size(), false);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    for (const std::size_t index : layers[i]) is_inside[index] = true;
    wrap_unit(&units_[i + 1], layers[i]);
  }
  std::vector<std::size_t> root;
  for (std::size_t index = 0; index < is_inside.size(); ++index) {
    if (!is_inside[index] && tape_->parameters()[index].count > 0) root.push_back(index);
  }
  wrap_unit(&units_[0], root);
  if (single() && settings_.defers_parameters) make_single_shards(late, buffers);
}

void ShardedParameters::gather(Unit* unit) {
  if (unit->is_gathered || unit->incoming || unit->own_count == 0) return;
  TensorPool& pool = tape_->pool();
  const std::uint64_t size_bytes = unit->own_count * settings_.ranks * gathered_bytes();
  Tensor narrow;
  if (settings_.gathers_narrow) {
    narrow = pool.make(unit->own_count * 2, TensorKind::Communication, kGatherStream);
  }
  const bool is_flat = settings_.kind == DataParallelKind::Fsdp1;
  const std::uint32_t stream = is_flat ? kFlatGatherStream : kGatherStream;
  const TensorKind kind = single() ? TensorKind::Communication : TensorKind::Parameter;
  unit->incoming = pool.make(size_bytes, kind, stream);
  tape_->communicate(size_bytes, stream, RankGroup::Data);
}

void ShardedParameters::finish_gather(Unit* unit, bool in_forward) {
  if (!unit->incoming) return;
  unit->is_gathered = true;
  if (!single()) {
    unit->full = std::move(unit->incoming);
    return;
  }
  std::vector<std::uint64_t> sizes;
  for (const Shard& shard : unit->shards) {
    sizes.push_back(shard.padded_count * gathered_bytes());
    tape_->parameters()[shard.parameter].data =
        tape_->pool().make(sizes.back() * settings_.ranks, TensorKind::Parameter);
  }
  {
    const Tensor table =
        tape_->pool().make(split_table_bytes(sizes, settings_.ranks), TensorKind::Workspace);
  }
  if (!in_forward) {
    unit->incoming.reset();
    return;
  }
  // The last unit's buffer goes only now, so that its copy may overlap with this unit's gather.
  last_gathered_ = std::exchange(unit->incoming, {});
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

// At its first forward FSDP 1 makes the buffers of every unit and takes their memory back until
// they are needed.
void ShardedParameters::prepare() {
  if (is_prepared_ || settings_.kind != DataParallelKind::Fsdp1) return;
  is_prepared_ = true;
  TensorPool& pool = tape_->pool();
  for (const Unit& unit : units_) {
    const std::uint64_t count = unit.own_count * settings_.ranks;
    if (settings_.gathers_narrow) {
      { const Tensor narrow = pool.make(unit.own_count * 2, TensorKind::Communication); }
      const Tensor gathered = pool.make(count * 2, TensorKind::Parameter);
    }
    const Tensor whole = pool.make(count * width_, TensorKind::Parameter);
  }
}

void ShardedParameters::drop_old_gradients() {
  for (Unit& unit : units_) {
    if (drops_gradients_) unit.gradient.reset();
  }
  drops_gradients_ = false;
}

void ShardedParameters::begin_forward() {
  prepare();
  drop_old_gradients();
  gather(&units_[0]);
  finish_gather(&units_[0], true);
}

Var ShardedParameters::begin_layer(std::size_t layer, Var input) {
  Unit& unit = units_[layer + 1];
  gather(&unit);
  finish_gather(&unit, true);
  return tape_->hooked(std::move(input), hook_code(layer + 1, Moment::AfterBackward));
}

Var ShardedParameters::end_layer(std::size_t layer, Var output, bool is_rerun) {
  if (settings_.reshard) release(&units_[layer + 1]);
  // FSDP 1 wraps the checkpoint, version 2 is within.
  const Moment moment = is_rerun && single() ? Moment::BeforeRerun : Moment::BeforeBackward;
  return tape_->hooked(std::move(output), hook_code(layer + 1, moment));
}

void ShardedParameters::end_forward() { last_gathered_.reset(); }

Var ShardedParameters::end_model(Var output) {
  return tape_->hooked(std::move(output), hook_code(0, Moment::BeforeBackward));
}

void ShardedParameters::on_hook(std::uint64_t code) {
  const std::size_t unit = code / kMoments;
  const auto moment = static_cast<Moment>(code % kMoments);
  if (moment == Moment::AfterBackward) {
    const bool is_done = unit == rerun_unit_ && gradients_left_ == 0;
    rerun_unit_ = gradients_left_ = 0;
    if (!is_done) post_backward(unit);
    return;
  }
  gather(&units_[unit]);
  finish_gather(&units_[unit], moment == Moment::BeforeRerun);
  if (moment == Moment::BeforeBackward) look_ahead(unit);
}

void ShardedParameters::begin_rerun_backward(std::size_t layer) {
  if (single()) return look_ahead(layer + 1);
  if (settings_.kind != DataParallelKind::Fsdp1) return;
  rerun_unit_ = layer + 1;
  gradients_left_ = static_cast<std::size_t>(std::ranges::count_if(
      units_[rerun_unit_].shards, [this](const Shard& shard) { return is_trained(shard); }));
}

// What the forward recorded comes first in a backward that another one runs, since autograd counts
// nodes by threads: a flat parameter's gradient is then joined as soon as it can be.
void ShardedParameters::on_gradient() {
  if (gradients_left_ > 0 && --gradients_left_ == 0) post_backward(rerun_unit_);
}

void ShardedParameters::look_ahead(std::size_t unit) {
  last_gathered_.reset();  // of a block that was run again
  // Backwards go from the last block to the first; the root is first in both.
  const std::size_t next = unit == 0 ? units_.size() - 1 : unit - 1;
  if (settings_.prefetch && next > 0) gather(&units_[next]);
}

// Before they are reduced, gradients of what tensor ranks share are those of this rank's part.
// FSDP 1's are made so by autograd, which begins with the youngest.
void ShardedParameters::cut_gradients(const Unit& unit) {
  const auto cut = [this](const Shard& shard) {
    Parameter& own = tape_->parameters()[shard.parameter];
    if (own.cuts_gradient && own.gradient) tape_->cut(own, &own.gradient, gathered_bytes());
  };
  if (single()) {
    std::ranges::for_each(unit.shards, cut);
  } else {
    std::for_each(unit.shards.rbegin(), unit.shards.rend(), cut);
  }
}

void ShardedParameters::reduce(Unit* unit) {
  TensorPool& pool = tape_->pool();
  last_reduced_.reset();
  std::vector<Shard> trained;
  for (const Shard& shard : unit->shards) {
    if (is_trained(shard)) trained.push_back(shard);
  }
  if (trained.empty()) return;
  // Gradients of two bytes are reduced in four.
  const std::uint64_t reduced_width = settings_.gathers_narrow ? 4 : width_;
  Tensor input =
      pool.make(unit->trained_count * settings_.ranks * reduced_width, TensorKind::Communication);
  std::vector<std::uint64_t> sizes;
  for (const Shard& shard : trained) sizes.push_back(shard.padded_count * reduced_width);
  { const Tensor table = pool.make(join_table_bytes(sizes), TensorKind::Workspace); }
  // The list of gradients is cleared from its end, but a variable still holds the last.
  for (std::size_t i = trained.size() - 1; i-- > 0;) {
    tape_->parameters()[trained[i].parameter].gradient.reset();
  }
  Tensor output =
      pool.make(unit->trained_count * reduced_width, TensorKind::Gradient, kReduceStream);
  tape_->parameters()[trained.back().parameter].gradient.reset();
  tape_->communicate(input.size_bytes(), kReduceStream, RankGroup::Data);
  last_reduced_ = std::move(input);
  reduce_over_replicas(output);
  keep_gradient(unit, std::move(output));
}

// The gradients of the views are joined to the flat parameter's, on the stream that made the views.
void ShardedParameters::reduce_flat(Unit* unit) {
  TensorPool& pool = tape_->pool();
  const std::uint64_t size_bytes = unit->own_count * settings_.ranks * gathered_bytes();
  cut_gradients(*unit);
  // Zeros for what fills the flat parameter up, which has no gradient.
  std::uint64_t filled_bytes = size_bytes;
  for (const Shard& shard : unit->shards) {
    filled_bytes -= tape_->parameters()[shard.parameter].count * gathered_bytes();
  }
  Tensor filler;
  if (filled_bytes > 0) filler = pool.make(filled_bytes, TensorKind::Gradient, kFlatGatherStream);
  Tensor flat = pool.make(size_bytes, TensorKind::Gradient, kFlatGatherStream);
  filler.reset();
  for (const Shard& shard : unit->shards) tape_->parameters()[shard.parameter].gradient.reset();
  release(unit);
  Tensor output =
      pool.make(unit->own_count * gathered_bytes(), TensorKind::Gradient, kFlatReduceStream);
  tape_->communicate(size_bytes, kFlatReduceStream, RankGroup::Data);
  reduce_over_replicas(output);
  if (settings_.gathers_narrow) {
    const std::uint32_t stream = settings_.replicas > 1 ? kReplicaStream : kFlatReduceStream;
    output = pool.make(unit->own_count * width_, TensorKind::Gradient, stream);
  }
  if (settings_.records) pool.record(flat, kFlatReduceStream);
  keep_gradient(unit, std::move(output));
}

void ShardedParameters::post_backward(std::size_t index) {
  Unit& unit = units_[index];
  if (unit.own_count == 0) return;
  if (settings_.kind == DataParallelKind::Fsdp1) {
    reduce_flat(&unit);
    return;
  }
  cut_gradients(unit);
  release(&unit);
  reduce(&unit);
}

void ShardedParameters::end_backward() {
  // Blocks whose input needs no gradient, as those below the first adapter.
  for (std::size_t i = units_.size(); i-- > 1;) {
    if (units_[i].is_gathered) post_backward(i);
  }
  post_backward(0);
  for (Unit& unit : units_) unit.replicated.reset();
  last_reduced_.reset();
}

// FSDP 1 keeps its own handles until the next forward. FSDP 2's root goes last: its last parameters
// come after the blocks.
void ShardedParameters::release_gradients() {
  drops_gradients_ = settings_.kind == DataParallelKind::Fsdp1;
  if (drops_gradients_) return;
  for (std::size_t i = 1; i < units_.size(); ++i) units_[i].gradient.reset();
  units_[0].gradient.reset();
}

void ShardedParameters::clear() {
  units_.clear();
  drop({&last_gathered_, &last_reduced_});
}

}  // namespace allocmark

// Parameters that are shared over data parallel ranks and gathered when a unit (a block, or all
// that is outside of blocks) needs them: PyTorch's FSDP with flat parameters (version 1) and with
// single ones (version 2, fully_shard). Says what each gather, release and reduction allocates, on
// which stream.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/data_parallel.h"

namespace allocmark {

class ShardedParameters {
 public:
  ShardedParameters(const DataParallelSettings& settings, std::uint64_t rank, Tape* tape)
      : settings_(settings), rank_(rank), tape_(tape) {}

  // `layers`: the parameters of each block; those outside make the first unit. `late`: in order,
  // what a model that is made in shards has besides; its buffers are put into `buffers`.
  void wrap(const std::vector<std::vector<std::size_t>>& layers,
            const std::vector<LateTensor>& late, std::vector<Tensor>* buffers);

  // Forward: the root's parameters stay until the end of the backward.
  void begin_forward();
  [[nodiscard]] Var begin_layer(std::size_t layer, Var input);
  // `is_rerun`: by a reentrant checkpoint, whose backward runs it again before its own begins.
  [[nodiscard]] Var end_layer(std::size_t layer, Var output, bool is_rerun);
  [[nodiscard]] Var end_model(Var output);  // the backward gathers where this one's comes
  void end_forward();

  // Backward.
  void on_hook(std::uint64_t code);
  // A reentrant checkpoint has run the block again.
  void begin_rerun_backward(std::size_t layer);
  // A parameter's gradient is whole.
  void on_gradient();
  void end_backward();

  // Streams in use, the one that computes among them.
  [[nodiscard]] static constexpr std::uint32_t stream_count(std::uint64_t replicas) {
    return replicas > 1 ? 5 : 4;
  }
  // `order`: the model's, of what is trained.
  [[nodiscard]] std::vector<OptimizedTensor> optimized(const std::vector<std::size_t>& order) const;
  // FSDP 2's tensors of all parameters, as a state dict of this rank has them.
  [[nodiscard]] std::vector<OptimizedTensor> parts(const std::vector<std::size_t>& order) const;
  void release_gradients();
  // FSDP 1's whole state dict, copies on the device; of tied tensors so many more, by their names.
  [[nodiscard]] std::vector<Tensor> whole_state(const std::vector<std::size_t>& order,
                                                std::size_t table_names, bool has_bias_name);
  // Gathers each unit in turn, as a full state dict on the host does.
  void gather_all();
  void clear();

 private:
  struct Shard {
    std::size_t parameter = 0;
    std::uint64_t count = 0;         // elements of this rank's part
    std::uint64_t padded_count = 0;  // of every rank's part
  };
  struct Unit {
    std::vector<Shard> shards;
    std::vector<Tensor> own;          // parts, or one flat part
    std::uint64_t own_count = 0;      // padded elements of this rank
    std::uint64_t trained_count = 0;  // those that get gradients
    Tensor incoming;                  // gathered, not yet copied out
    Tensor full;                      // flat parameters
    Tensor gradient;                  // reduced, flat
    Tensor replicated;  // reduced over replicas and added to it: kept until the backward's end
    bool is_gathered = false;
  };
  void drop_old_gradients();
  [[nodiscard]] std::vector<OptimizedTensor> tensors_of(const std::vector<std::size_t>& order,
                                                        std::uint64_t Shard::*count,
                                                        bool only_trained) const;

  [[nodiscard]] bool single() const { return settings_.kind == DataParallelKind::Fsdp2; }
  [[nodiscard]] std::uint64_t gathered_bytes() const {
    return settings_.gathers_narrow ? 2 : width_;
  }
  [[nodiscard]] bool is_trained(const Shard& shard) const {
    return tape_->parameters()[shard.parameter].trainable;
  }
  void wrap_unit(Unit* unit, const std::vector<std::size_t>& parameters);
  void make_whole(const std::vector<std::size_t>& parameters);
  void make_single_shards(const std::vector<LateTensor>& late, std::vector<Tensor>* buffers);
  void pad_shards(Unit* unit);
  void flatten(Unit* unit, std::uint64_t element_count);
  void set_own_parts(Unit* unit) const;
  void prepare();
  void gather(Unit* unit);
  void finish_gather(Unit* unit, bool in_forward);
  void release(Unit* unit);
  void cut_gradients(const Unit& unit);
  void reduce(Unit* unit);
  void reduce_flat(Unit* unit);
  void reduce_over_replicas(const Tensor& shard);
  void keep_gradient(Unit* unit, Tensor reduced);
  void look_ahead(std::size_t unit);  // gathers what the backward needs next
  void post_backward(std::size_t unit);

  DataParallelSettings settings_;
  std::uint64_t rank_;
  Tape* tape_;
  std::uint64_t width_ = 4;  // bytes per element of the shards
  std::vector<Unit> units_;
  std::size_t rerun_unit_ = 0;      // FSDP 1: whose block's backward a reentrant checkpoint runs
  std::size_t gradients_left_ = 0;  // of it
  bool is_prepared_ = false;
  bool drops_gradients_ = false;  // at the next forward or state dict
  Tensor last_gathered_;          // kept until the next unit was copied out (forward)
  Tensor last_reduced_;           // likewise (backward)
};

}  // namespace allocmark

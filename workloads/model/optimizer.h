// Optimizers as PyTorch and bitsandbytes run them: the states they make at their first step and the
// temporaries of every step, in order. Works on any list of tensors: whole parameters, shards, or
// one flat buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/tensors.h"

namespace allocmark {

enum class OptimizerKind : std::uint8_t {
  AdamW,           // foreach: denominators of all parameters at once
  AdamWFused,      // one kernel, no temporaries; step counts on the device
  Sgd,             // no momentum: no state
  AdamWLoop,       // foreach=False: two temporaries per parameter in turn
  SgdMomentum,     // foreach and loop alike: the first step clones the gradients
  AdamW8bit,       // bitsandbytes: states of one byte with a scale per 256 elements, no temporaries
  PagedAdamW8bit,  // the same; states of large tensors are in managed memory
  PagedAdamW32bit,  // likewise, of four bytes
};

// States of large tensors are outside of PyTorch's allocator (bitsandbytes).
[[nodiscard]] constexpr bool is_paged(OptimizerKind kind) {
  return kind == OptimizerKind::PagedAdamW8bit || kind == OptimizerKind::PagedAdamW32bit;
}

struct OptimizedTensor {
  std::uint64_t count = 0;           // elements; 0: this rank has none, but counts steps
  std::uint64_t width = 0;           // bytes per element
  bool cuts_gradient = false;        // whoever reads the gradient makes its part of it first
  std::uint64_t gradient_count = 0;  // its elements, where it is larger; 0: as many
  bool is_replicated = false;        // a shard that tensor ranks have alike: its norm counts once
  bool is_distributed = false;       // a DTensor: load_state_dict() copies its states on the device
  [[nodiscard]] std::uint64_t size_bytes() const { return count * width; }
};

class Optimizer {
 public:
  Optimizer(OptimizerKind kind, TensorPool* pool)
      : kind_(kind), pool_(pool), pages_states_(is_paged(kind)) {}

  // torch.nn.utils.clip_grad_norm_ over gradients of these tensors (foreach). `are_shards`: of
  // fully_shard, whose norms are joined with those of the other ranks.
  void clip(const std::vector<OptimizedTensor>& tensors, bool are_shards = false);
  // Makes the states where there are none yet.
  void step(const std::vector<OptimizedTensor>& tensors);
  // The same of one of several that are stepped on one after the other, in the same order each
  // time.
  void step_on(const OptimizedTensor& tensor, std::size_t index);
  // Replaces all states, also where there are none yet, by those of a loaded state dict.
  // `on_device`: step counts are there too, as torch.load(map_location="cuda") puts them. What is
  // returned lives until the caller lets go of the dict: bitsandbytes copies all that is in it,
  // PyTorch the states of DTensors.
  [[nodiscard]] std::vector<Tensor> load_states(const std::vector<OptimizedTensor>& tensors,
                                                bool on_device);
  [[nodiscard]] const std::vector<Tensor>& states() const { return states_; }
  void clear() {
    states_.clear();
    widths_.clear();
    are_distributed_.clear();
    tables_.clear();
  }

 private:
  enum class StatesFrom : std::uint8_t { Step, HostFile, DeviceFile };
  void make_norms(const std::vector<OptimizedTensor>& tensors, std::vector<Tensor>* norms);
  void make_states(const std::vector<OptimizedTensor>& tensors, StatesFrom from);
  void make_8bit_states(std::uint64_t count, StatesFrom from);
  std::vector<Tensor> copy_states();
  void add_states(std::size_t count, std::uint64_t elements, std::uint64_t width);
  void make_two_states(std::uint64_t count, std::uint64_t width);
  // Of those that are to be cut.
  std::vector<Tensor> cut_gradients(const std::vector<OptimizedTensor>& tensors);
  void cut_for_moments(const std::vector<OptimizedTensor>& tensors);
  void loop(const std::vector<OptimizedTensor>& tensors);

  OptimizerKind kind_;
  TensorPool* pool_;
  bool pages_states_;
  bool has_states_ = false;
  std::size_t lone_count_ = 0;  // tensors of step_on() that have states
  bool has_loaded_tables_ = false;
  std::uint64_t managed_bytes_ = 0;  // taken by the states that are being made
  std::vector<Tensor> states_;
  std::vector<std::uint64_t> widths_;  // bytes per element of each
  std::vector<bool> are_distributed_;  // likewise
  bool adds_distributed_ = false;
  std::vector<Tensor> tables_;  // of states of one byte, made with the first of them
};

}  // namespace allocmark

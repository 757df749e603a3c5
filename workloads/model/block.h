// One transformer block: attention and MLP with their norms and residual sums, forward and
// backward.
#pragma once

#include "workloads/model/operators.h"

namespace allocmark {

class Attention {
 public:
  // Takes the normalised input; the result is narrow. `weights` receives the attention weights,
  // which eager code holds until its block ends.
  [[nodiscard]] Tensor forward(Ops& ops, const Tensor& input, Tensor* weights);
  [[nodiscard]] Tensor backward(Ops& ops, Tensor gradient);

 private:
  void project(Ops& ops, const Tensor& input);
  [[nodiscard]] Tensor project_backward(Ops& ops, Tensor query, Tensor key, Tensor value);
  [[nodiscard]] Tensor mix(Ops& ops, Tensor* weights);
  [[nodiscard]] Tensor mix_fused(Ops& ops);
  [[nodiscard]] Tensor mix_backward(Ops& ops, Tensor gradient);
  [[nodiscard]] Tensor mix_fused_backward(Ops& ops, Tensor gradient);

  Linear joint_;  // Gpt2: one projection for all three
  Linear query_projection_, key_projection_, value_projection_;
  Linear output_projection_;
  Tensor joint_output_;
  Tensor query_, key_, value_;
  Tensor probabilities_;
  Tensor mask_;
  Tensor dropped_;
  Tensor fused_output_, fused_sums_;
};

class Mlp {
 public:
  [[nodiscard]] Tensor forward(Ops& ops, const Tensor& input);
  [[nodiscard]] Tensor backward(Ops& ops, Tensor gradient);

 private:
  [[nodiscard]] Tensor activate_written_out(Ops& ops, Tensor inner);
  [[nodiscard]] Tensor activate_written_out_backward(Ops& ops, Tensor gradient);
  [[nodiscard]] Tensor activate_gated(Ops& ops, const Tensor& input);
  [[nodiscard]] Tensor activate_gated_backward(Ops& ops, Tensor gradient);

  Linear up_, gate_, down_;
  Tensor inner_, half_, tanh_, one_plus_;
};

class Block {
 public:
  // `early_stop` leaves out the last sum, which nothing saves, as a checkpoint's recomputation
  // does.
  [[nodiscard]] Tensor forward(Ops& ops, Tensor input, bool early_stop);
  // The residual stream's gradient is added to in place.
  void backward(Ops& ops, Tensor* stream_gradient);

 private:
  [[nodiscard]] Tensor added(Ops& ops);

  Norm first_norm_, second_norm_;
  Attention attention_;
  Dropout attention_dropout_, mlp_dropout_;
  Mlp mlp_;
};

}  // namespace allocmark

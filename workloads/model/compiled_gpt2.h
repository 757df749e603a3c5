// GPT-2 under torch.compile in its default mode, bf16 autocast and fused attention: what the code
// that inductor generates keeps and reuses, as recorded on an H200 (gpt2_compiled). One graph
// forward and one backward; no operator of the tape has a part in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "workloads/model/setup.h"
#include "workloads/model/tape.h"

namespace allocmark {

class CompiledGpt2 {
 public:
  // `parameters`: indexes in the order of the modules.
  CompiledGpt2(const TransformerSetup& setup, Tape* tape, std::vector<std::size_t> parameters);

  // Binds `loss` to the new one once that is there.
  void forward(Tensor* loss);
  // Every parameter has its gradient then.
  void backward();

 private:
  // Norms keep the normed values in four bytes and a scale per token; `mask`: the dropout before.
  struct Norm {
    Tensor mask, normed, scales, output;
  };
  struct Block {
    Norm first, second;
    Tensor qkv_weight, qkv, seed, offset, attention, sums, out_weight;
    Tensor up_weight, up, activation, down_weight;
    // Gradients.
    Tensor of_qkv, of_attention_out, of_up, of_down, of_first, of_second;
  };

  [[nodiscard]] Tensor make(std::uint64_t count, std::uint64_t width) {
    return tape_->activation(count * width);
  }
  [[nodiscard]] Tensor rows(std::uint64_t columns, std::uint64_t width) {
    return make(tokens_ * columns, width);
  }
  // Only before a kernel is used for the first time: inductor times its variants, each on a cold
  // cache, and on copies of `changed_bytes` that it writes to.
  void time_kernel(std::uint64_t changed_bytes = 0);
  // The same for products with a vocabulary that is padded and one that is not.
  void time_padding();
  void gradient(std::size_t parameter, std::uint64_t count);
  [[nodiscard]] std::size_t of_block(std::size_t block, std::size_t parameter) const;
  void normalize(Norm* norm, bool has_output);
  void attend(Block& own, bool is_first, bool is_last);
  void expand(Block& own, bool is_first, bool is_last);
  void lose(Tensor* loss);
  void lose_backward();
  void block_backward(std::size_t index);
  void attend_backward(Block& own, bool is_first);
  void sum_norms();
  void sum_biases();
  void multiply_weights();

  Tape* tape_;
  std::vector<std::size_t> parameters_;
  std::uint64_t batch_, sequence_, tokens_, hidden_, ffn_, heads_, vocabulary_, positions_;
  std::uint64_t padded_vocabulary_;
  bool times_kernels_ = true;  // in the first step
  std::vector<Block> blocks_;
  Tensor places_, ids_, residual_, pairs_, spare_[2], biases_[3];
  Norm last_;
  Tensor exact_, head_weight_, logits_, largest_, exponentials_, labels_, counted_;
  // Gradients.
  Tensor of_loss_, of_logits_, of_logits_padded_, of_exact_, of_last_, of_residual_, head_padded_;
  Tensor of_query_, of_key_, of_value_;
};

}  // namespace allocmark

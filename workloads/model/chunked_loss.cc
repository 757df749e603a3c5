// Head and loss without logits of all tokens: over chunks of tokens, each checkpointed, or by
// Liger-Kernel.
#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/liger.h"
#include "workloads/model/transformer.h"

namespace allocmark {

// The chunks' checkpoints are plain ones, whatever those of the blocks keep.
Var Transformer::chunk_loss(const Var& hidden, const Tensor& labels) {
  const std::uint64_t rows = hidden.count / setup_.model.hidden;
  const bool keeps = tape_.set_keeps_products(false);
  Var logits = linear(tape_, hidden, rows, {.weight = head_});
  Var loss = cross_entropy(tape_, cast(tape_, std::move(logits), 4), labels);
  tape_.set_keeps_products(keeps);
  return loss;
}

Var Transformer::chunked_loss(Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t chunk_rows = divided_up(rows, loss_chunks_);
  Tensor labels;
  {
    // Of one sequence reshape() is a view (causal_loss).
    const Var padded = tape_.make(rows + setup_.batch, 8);
    labels = setup_.batch == 1 ? padded.tensor : tape_.make(rows, 8).tensor;
  }
  Var whole = begin_parts(tape_, hidden);
  hidden.drop();
  Var total;
  for (std::uint64_t begin = 0; begin < rows; begin += chunk_rows) {
    const std::uint64_t count = std::min(chunk_rows, rows - begin) * setup_.model.hidden;
    const Var part = part_of(tape_, whole, count);
    SegmentInput segment{.is_loss = true, .inputs = {part, Var(), Var()}};
    segment.inputs[0].tensor.reset();
    tape_.begin_segment(std::move(segment));
    for (const Tensor& held : {part.tensor, labels}) tape_.hold(held);
    Var loss = chunk_loss(part, labels);
    tape_.end_segment();
    total = begin == 0 ? add_scalar(tape_, std::move(loss))
                       : add(tape_, std::move(total), std::move(loss));
  }
  labels.reset();
  whole.drop();
  return multiply_scalar(tape_, std::move(total));
}

// Labels are shifted as in causal_loss.
Var Transformer::fused_loss(Var hidden) {
  const std::uint64_t rows = setup_.token_count();
  const Var padded = tape_.make(rows + setup_.batch, 8);
  const Tensor labels = setup_.batch == 1 ? padded.tensor : tape_.make(rows, 8).tensor;
  return liger_loss(
      tape_, std::move(hidden), head_,
      {.rows = rows, .hidden = setup_.model.hidden, .words = setup_.model.vocabulary});
}

}  // namespace allocmark

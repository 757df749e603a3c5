// The operators of Megatron-LM's layers (megatron.h), each with what its forward and its backward
// allocate.
#include <utility>

#include "workloads/model/megatron.h"

namespace allocmark {
namespace {

// Rows of partial sums in apex's and Transformer Engine's norm gradients.
constexpr std::uint64_t kNormParts = 16;

// sizes: bytes of the input, of a weight.
void norm_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  const bool with_bias = node.edges[2] != kNoEdge;
  Tensor parts[2];
  for (std::size_t i = 0; i < (with_bias ? 2u : 1u); ++i) {
    parts[i] = tape.scratch(kNormParts * node.sizes[1] / kMegatronElementBytes * 4);
  }
  b.out[1].tensor = tape.gradient(node.sizes[1]);
  if (with_bias) b.out[2].tensor = tape.gradient(node.sizes[1]);
}

// sizes: bytes of the input on this rank, of the weight, of the bias (0: none of its own), bytes of
// the gathered input, whether the input's gradient is reduced over the ranks, multiply-adds.
void megatron_linear_backward(Tape& tape, Node& node, Backprop& b) {
  Tensor whole = tape.gradient(node.sizes[3]);
  tape.use_cublas(false);
  if (node.sizes[3] != node.sizes[0]) {
    tape.communicate(node.sizes[3], kGatherStream,
                     RankGroup::Tensor);  // the input is gathered again
    b.out[0].tensor = tape.gradient(node.sizes[0]);
    tape.communicate(node.sizes[3], kGatherStream, RankGroup::Tensor);
  } else if (node.sizes[4] == 1) {
    tape.communicate(node.sizes[3], kGatherStream, RankGroup::Tensor);
  }
  if (!b.out[0].tensor) b.out[0].tensor = whole;
  // The product adds to the gradient buffer; autograd gets an unused tensor of that shape.
  b.out[1].tensor = tape.gradient(node.sizes[1]);
  if (node.edges[2] != kNoEdge) b.out[2].tensor = tape.gradient(node.sizes[2]);
  whole.reset();
  tape.product(node.sizes[5], 2, 1);
}

// sizes: bytes of the result, of the bias; saved: the mask.
void bias_dropout_add_backward(Tape& tape, Node& node, Backprop& b) {
  if (node.saved[0]) {
    b.out[0].tensor = tape.gradient(node.sizes[0]);
  } else {
    b.out[0] = b.gradient;
  }
  if (node.edges[1] != kNoEdge) b.out[1].tensor = tape.gradient(node.sizes[1]);
  b.out[2] = b.gradient;
}

// sizes: bytes of q, of k and of v each, of the joint projection, of the scores.
void eager_core_backward(Tape& tape, Node& node, Backprop& b) {
  Tensor context;
  if (node.sizes[4] == 1) {  // heads before tokens again
    context = tape.gradient(node.sizes[0]);
    b.gradient.tensor.reset();
  }
  Tensor value = tape.gradient(node.sizes[1]);
  Tensor scores = tape.gradient(node.sizes[3]);
  drop({&node.saved[3], &context});
  if (node.saved[2]) {
    Tensor kept = tape.gradient(node.sizes[3]);
    scores = std::move(kept);
    node.saved[2].reset();
  }
  node.saved[1].reset();  // the softmax's gradient takes the place of the incoming one
  Tensor query = tape.gradient(node.sizes[0]);
  Tensor key = tape.gradient(node.sizes[1]);
  scores.reset();
  b.out[0].tensor = tape.gradient(node.sizes[2]);
}

// sizes as above; the fourth: rows of the log sums.
void flash_core_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor sums = tape.scratch(node.sizes[3] * 4);
  const Tensor exact = tape.scratch(node.sizes[0] / kMegatronElementBytes * 4);
  const Tensor query = tape.gradient(node.sizes[0]);
  const Tensor key = tape.gradient(node.sizes[1]);
  const Tensor value = tape.gradient(node.sizes[1]);
  b.out[0].tensor = tape.gradient(node.sizes[2]);
}

// sizes: bytes of the joint projection, of q, of k.
void rotated_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor query = tape.gradient(node.sizes[1]);
  const Tensor key = tape.gradient(node.sizes[2]);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
}

// The softmax in four bytes becomes the gradient in place, then is cast.
void shared_loss_backward(Tape& tape, Node& node, Backprop& b) {
  const Tensor range = tape.scratch(node.sizes[1] * 8);
  const Tensor update = tape.scratch(node.sizes[1] * 4);
  b.out[0].tensor = tape.gradient(node.sizes[0]);
}

}  // namespace

Var MegatronModel::norm(Var input, std::size_t weight) {
  const std::uint64_t rows = setup_.own_token_count();
  const Var scale = tape_.parameter(weight);
  const Var shift = has_bias() ? tape_.parameter(weight + 1) : Var();
  Node* node = tape_.record(norm_backward, {&input, &scale, &shift},
                            {input.size_bytes(), scale.size_bytes()});
  tape_.save(node, 0, input.tensor);
  Var out = tape_.result(node, input.count, input.width);
  Var deviation = tape_.make(rows, 4);
  tape_.save(node, 1, deviation.tensor);
  if (has_bias()) {
    const Var mean = tape_.make(rows, 4);
    tape_.save(node, 2, mean.tensor);
  }
  return out;
}

Var MegatronModel::linear(Var input, const Linear& weights) {
  const bool gathers = weights.from_shared && setup_.parallel.sequence;
  const std::uint64_t rows = setup_.token_count();
  const std::uint64_t whole_bytes = input.size_bytes() * (gathers ? ranks() : 1);
  const Var weight = tape_.parameter(weights.weight);
  const Var bias = weights.adds_bias && has_bias() ? tape_.parameter(weights.weight + 1) : Var();
  if (gathers) {
    use_buffer(whole_bytes);
    tape_.communicate(whole_bytes, kGatherStream, RankGroup::Tensor);
  }
  Node* node =
      tape_.record(megatron_linear_backward, {&input, &weight, &bias},
                   {input.size_bytes(), weight.size_bytes(), bias.size_bytes(), whole_bytes,
                    weights.from_shared && ranks() > 1 ? 1u : 0u, rows * weight.count});
  const std::uint64_t columns = weight.count / (whole_bytes / kMegatronElementBytes / rows);
  tape_.save(node, 0, input.tensor);
  Var out = make(rows * columns);
  tape_.use_cublas(false);
  tape_.product(rows, weight.count, 1);
  if (bias.count > 0) out = make(rows * columns);  // output + bias
  tape_.attach(node, &out);
  return out;
}

Var MegatronModel::bias_dropout_add(Var input, std::size_t bias, Var residual) {
  const Var shift = has_bias() ? tape_.parameter(bias) : Var();
  Node* node = tape_.record(bias_dropout_add_backward, {&input, &shift, &residual},
                            {input.size_bytes(), shift.size_bytes()});
  Var out = tape_.result(node, input.count, input.width);
  if (setup_.has_dropout()) {
    const Var mask = tape_.make(input.count, 1);
    tape_.save(node, 0, mask.tensor);
  }
  return out;
}

Var MegatronModel::activation(Var input, std::size_t bias) {
  const Var shift = has_bias() ? tape_.parameter(bias) : Var();
  Node* node =
      tape_.record(new_gradients, {&input, &shift}, {input.size_bytes(), shift.size_bytes()});
  tape_.save(node, 0, input.tensor);
  const bool gated = setup_.model.family == ModelFamily::Llama;
  return tape_.result(node, gated ? input.count / 2 : input.count, input.width);
}

Var MegatronModel::rotated(const Var& joint) {
  if (setup_.model.family != ModelFamily::Llama) return joint;
  Node* node =
      tape_.record(rotated_backward, {&joint}, {joint.size_bytes(), query_bytes(), key_bytes()});
  // The values stay where they are; queries and keys are written anew.
  Var out = joint;
  Tensor turned_query = make(query_count()).tensor;
  Tensor turned_key = make(key_count()).tensor;
  tape_.save(node, 0, turned_query);
  tape_.save(node, 1, turned_key);
  tape_.attach(node, &out);
  return out;
}

Var MegatronModel::eager_core(const Var& given) {
  const ModelShape& model = setup_.model;
  const std::uint64_t tokens = setup_.token_count();
  const Var joint = rotated(given);
  const std::uint64_t score_count = tokens * setup_.sequence * model.head_count / ranks();
  Node* node = tape_.record(
      eager_core_backward, {&joint},
      {query_bytes(), key_bytes(), joint.size_bytes(), score_count * kMegatronElementBytes,
       setup_.batch * model.head_count > 1 ? 1u : 0u});
  tape_.save(node, 0, joint.tensor);
  use_buffer(score_count * kMegatronElementBytes);
  // Grouped keys and values are repeated for every query head.
  Var repeated[2];
  if (query_count() != key_count()) {
    for (std::size_t i = 0; i < 2; ++i) {
      repeated[i] = make(query_count());
      tape_.save(node, 4 + i, repeated[i].tensor);
    }
  }
  Var scores = make(score_count);
  tape_.use_cublas(false);
  Var weights = make(score_count);
  scores.drop();
  tape_.save(node, 1, weights.tensor);
  if (setup_.has_dropout()) {
    Var mask = tape_.make(score_count, 1);
    Var dropped = make(score_count);
    tape_.save(node, 2, mask.tensor);
    tape_.save(node, 3, dropped.tensor);
    weights = std::move(dropped);
  }
  Var mixed = make(query_count());
  weights.drop();
  Var out = tape_.result(node, query_count(), kMegatronElementBytes);  // tokens before heads
  mixed.drop();
  return out;
}

Var MegatronModel::flash_core(const Var& given) {
  const std::uint64_t rows = setup_.token_count() * setup_.model.head_count / ranks();
  const Var joint = rotated(given);
  Node* node = tape_.record(flash_core_backward, {&joint},
                            {query_bytes(), key_bytes(), joint.size_bytes(), rows});
  tape_.save(node, 0, joint.tensor);
  Var out = tape_.result(node, query_count(), kMegatronElementBytes);
  const Var sums = tape_.make(rows, 4);
  const Var state = tape_.make(2, 8);
  tape_.save(node, 1, out.tensor);
  tape_.save(node, 2, sums.tensor);
  tape_.save(node, 3, state.tensor);
  return out;
}

// Vocabulary parallel cross entropy: logits in four bytes become the softmax in place.
Var MegatronModel::loss(Var hidden, const Tensor& labels) {
  const std::uint64_t rows = setup_.token_count();
  Var logits = linear(std::move(hidden), {.weight = head_, .from_shared = true});
  Tensor turned = labels;
  if (setup_.batch > 1) turned = tape_.make(rows, 8).tensor;
  Node* node = tape_.record(shared_loss_backward, {&logits}, {logits.size_bytes(), rows});
  Var softmax = tape_.make(logits.count, 4);
  Var largest = tape_.make(rows, 4);
  Var outside = tape_.make(rows, 1);
  Var masked = tape_.make(rows, 8);
  Var range = tape_.make(rows, 8);
  Var predicted = tape_.make(rows, 4);
  Var sums = tape_.make(rows, 4);
  if (ranks() > 1) tape_.communicate(rows * 4, kGatherStream, RankGroup::Tensor);
  Var losses = tape_.result(node, rows, 4);
  tape_.save(node, 0, softmax.tensor);
  tape_.save(node, 1, outside.tensor);
  tape_.save(node, 2, masked.tensor);
  drop({&softmax, &largest, &outside, &masked, &range, &predicted, &sums});
  Var mean = mean_of_rows(tape_, std::move(losses), 1);
  logits.drop();
  return mean;
}

}  // namespace allocmark

// The backward of ring_attention.h: every pair of keys and values comes by again, and its
// gradients, in four bytes, travel once around the ring.
#include <utility>

#include "workloads/model/functions.h"
#include "workloads/model/ring_steps.h"

namespace allocmark {
namespace {

class RingBackward {
 public:
  RingBackward(Tape* tape, const Ring& ring)
      : tape_(*tape),
        ring_(ring),
        pairs_(tape, ring.shape.ranks, ring.shape.gathers),
        pair_gradients_(tape, ring.shape.ranks, false) {}

  struct Result {
    Tensor query, pair;  // keys' and values' gradients are views of one tensor
  };

  [[nodiscard]] Result run(const Tensor& key, const Tensor& value) {
    const std::uint64_t half_bytes = ring_.pair_bytes(4) / 2;
    query_ = tape_.gradient(ring_.query_elements(2) * 4);
    gradients_.key = tape_.gradient(half_bytes);
    gradients_.value = tape_.gradient(half_bytes);
    current_ = contiguous_pair(tape_, ring_, key, value);
    for (std::uint64_t step = 0; step < ring_.shape.ranks; ++step) run_step(step);
    return finish();
  }

 private:
  Tensor traveling(std::uint64_t size_bytes) {
    return tape_.allocate(size_bytes, TensorKind::Communication);
  }

  void run_step(std::uint64_t step) {
    const std::uint64_t bytes = ring_.pair_bytes(ring_.width);
    if (step > 0) current_ = {.key = pairs_.wait(), .value = pairs_.wait()};
    if (step + 1 < ring_.shape.ranks) {
      Tensor joined = traveling(bytes);
      next_pair_ = joined;
      pairs_.begin(std::move(joined), bytes);
    }
    const RingBlock block = ring_.block(step);
    // The row sums of a piece are copied, unless there is one row of heads.
    Tensor sums;
    if (block.is_partial() && ring_.shape.batch * ring_.shape.head_count > 1) {
      sums = tape_.activation(ring_.sum_bytes(1));
    }
    arguments_.key = current_.key;
    arguments_.value = current_.value;
    sums_ = std::move(sums);
    differentiate(block);
    add_to_pair(step, block);
    send_gradients(step);
    if (!block.is_partial()) return;  // added in place
    query_ = tape_.gradient(ring_.query_elements(2) * 4);
  }

  void differentiate(const RingBlock& block) {
    const std::uint64_t query_bytes = ring_.query_elements(block.query_halves) * ring_.width;
    const std::uint64_t key_bytes = ring_.pair_bytes(ring_.width) / 2 * block.key_halves / 2;
    // The memory-efficient kernel wants a piece of several sequences' gradient in one piece.
    Tensor given;
    if (!ring_.is_narrow() && block.is_partial() && ring_.shape.batch > 1) {
      given = tape_.gradient(query_bytes);
    }
    Tensor query = tape_.gradient(query_bytes);
    Tensor key = tape_.gradient(key_bytes);
    Tensor value = tape_.gradient(key_bytes);
    ring_.is_narrow() ? take_cudnn_workspace(block) : take_efficient_workspace(block);
    given.reset();
    block_query_ = std::move(query);
    block_key_ = std::move(key);
    block_value_ = std::move(value);
  }

  // fused_attention_backward's, of a part of the queries and of the keys.
  void take_cudnn_workspace(const RingBlock& block) {
    const std::uint64_t expanded =
        ring_.shape.repeats > 1 ? 2 * ring_.query_elements(block.key_halves) * ring_.width : 0;
    const Tensor workspace = tape_.scratch(ring_.query_elements(block.query_halves) * 4 +
                                           ring_.rows(block.query_halves) * 4 + 256 + expanded);
  }

  void take_efficient_workspace(const RingBlock& block) {
    const std::uint64_t rows = ring_.rows(block.query_halves);
    Tensor product = tape_.gradient(ring_.query_elements(block.query_halves) * 4);
    Tensor sums = tape_.gradient(rows * 4);
    Tensor delta = tape_.gradient(rows * 4);
    drop({&sums, &product});
    const RingShape& shape = ring_.shape;
    const Tensor workspace = tape_.scratch(efficient_workspace_bytes(
        shape.batch * shape.head_count, shape.token_count * block.query_halves / 2,
        shape.head_width, shape.head_width));
    delta.reset();
  }

  // The gradients of the pair that came by are added to what other ranks found.
  void add_to_pair(std::uint64_t step, const RingBlock& block) {
    if (step == 0) return;  // in place
    const std::uint64_t half_bytes = ring_.pair_bytes(4) / 2;
    next_gradients_ = pair_gradients_.wait();
    gradients_ = {.key = next_gradients_, .value = next_gradients_};
    if (block.key_halves == 2) return;  // in place
    gradients_.key = tape_.gradient(half_bytes);
    gradients_.value = tape_.gradient(half_bytes);
  }

  void send_gradients(std::uint64_t step) {
    const std::uint64_t bytes = ring_.pair_bytes(4);
    // The first ones have their inputs' order and are copied to be laid out flat.
    Tensor key, value;
    if (step == 0 && !ring_.key_apart) key = tape_.gradient(bytes / 2);
    if (step == 0 && !ring_.value_apart) value = tape_.gradient(bytes / 2);
    Tensor joined = traveling(bytes);
    drop({&value, &key});
    next_gradients_ = joined;
    pair_gradients_.begin(std::move(joined), bytes);
  }

  [[nodiscard]] Result finish() {
    Result result{.query = query_, .pair = pair_gradients_.wait()};
    if (ring_.is_narrow()) {
      result.query = tape_.gradient(ring_.query_elements(2) * ring_.width);
      query_.reset();
      result.pair = tape_.gradient(ring_.pair_bytes(ring_.width));
    }
    next_gradients_.reset();
    gradients_ = {};
    drop({&next_pair_, &block_query_, &block_key_, &block_value_, &query_});
    pair_gradients_.clear();
    current_ = {};
    arguments_ = {};
    pairs_.clear();
    sums_.reset();
    if (ring_.shape.makes_number) tape_.take_scratch(4);
    return result;
  }

  Tape& tape_;
  const Ring& ring_;
  RingExchange pairs_, pair_gradients_;
  RingPair current_, arguments_, gradients_;
  Tensor query_, sums_, next_pair_, next_gradients_;
  Tensor block_query_, block_key_, block_value_;
};

}  // namespace

void ring_attention_backward(Tape& tape, Node& node, Backprop& b) {
  const Ring& ring = *static_cast<const Ring*>(node.remembered.get());
  RingBackward backward(&tape, ring);
  RingBackward::Result result = backward.run(node.saved[1], node.saved[3]);
  const bool is_apart = ring.query_apart || ring.has_partial_steps();
  b.out[0] = {.tensor = std::move(result.query),
              .layout = is_apart ? GradLayout::Heads : GradLayout::Tokens};
  b.out[1] = {.tensor = result.pair, .is_view = true, .layout = GradLayout::Heads};
  b.out[2] = {.tensor = std::move(result.pair), .is_view = true, .layout = GradLayout::Heads};
}

}  // namespace allocmark

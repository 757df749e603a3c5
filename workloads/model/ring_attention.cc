// See ring_attention.h. Lifetimes follow from the Python variables of PyTorch 2.11 that hold a
// tensor.
#include "workloads/model/ring_attention.h"

#include <memory>
#include <utility>

#include "workloads/model/collectives.h"
#include "workloads/model/functions.h"
#include "workloads/model/ring_steps.h"

namespace allocmark {
namespace {

class RingForward {
 public:
  RingForward(Tape* tape, const Ring& ring) : tape_(*tape), ring_(ring) {}

  struct Result {
    Tensor out, sums, seed, offset;
  };

  [[nodiscard]] Result run(const Tensor& key, const Tensor& value) {
    const RingShape& shape = ring_.shape;
    const std::uint64_t half_bytes = ring_.pair_bytes(ring_.width) / 2;
    RingExchange rotater(&tape_, shape.ranks, shape.gathers);
    RingPair current = contiguous_pair(tape_, ring_, key, value);
    RingPair arguments;
    for (std::uint64_t step = 0; step < shape.ranks; ++step) {
      if (step > 0) current = {.key = rotater.wait(), .value = rotater.wait()};
      if (step + 1 < shape.ranks) {
        Tensor joined = traveling(2 * half_bytes);
        rotater.begin(std::move(joined), 2 * half_bytes);
      }
      arguments.key = current.key;
      arguments.value = current.value;
      const RingBlock block = ring_.block(step);
      attend(block);
      merge(block);
    }
    Result result{.out = out_, .sums = total_sums_, .seed = seed_, .offset = offset_};
    result.out = ring_.is_narrow() ? activation(ring_.query_elements(2) * ring_.width) : total_;
    total_.reset();
    rotater.clear();
    current = arguments = {};
    drop({&out_, &sums_});
    return result;
  }

 private:
  Tensor traveling(std::uint64_t size_bytes) {
    return tape_.allocate(size_bytes, TensorKind::Communication);
  }

  Tensor activation(std::uint64_t size_bytes) { return tape_.activation(size_bytes); }

  // One kernel; what the last step gave goes when its names are bound anew.
  void attend(const RingBlock& block) {
    const std::uint64_t out_bytes = ring_.query_elements(block.query_halves) * ring_.width;
    Tensor seed, offset;
    if (ring_.is_narrow()) {
      seed = activation(8);
      offset = activation(8);
    }
    Tensor out = activation(out_bytes);
    Tensor sums = activation(ring_.sum_bytes(block.query_halves));
    if (ring_.is_narrow()) static_cast<void>(activation(256));
    out_ = std::move(out);
    sums_ = std::move(sums);
    seed_ = std::move(seed);
    offset_ = std::move(offset);
  }

  // What all steps gave so far, corrected by the new one in four bytes.
  void merge(const RingBlock& block) {
    const std::uint64_t bytes = ring_.query_elements(block.query_halves) * 4;
    const std::uint64_t sum_bytes = ring_.sum_bytes(block.query_halves);
    Tensor wide = ring_.is_narrow() ? activation(bytes) : out_;
    if (!has_total_) {
      has_total_ = true;
      total_ = std::move(wide);
      total_sums_ = sums_;
      return;
    }
    Tensor out = corrected(bytes, sum_bytes);
    Tensor sums = corrected_sums(sum_bytes);
    if (!block.is_partial()) {
      total_sums_ = std::move(sums);
      total_ = std::move(out);
      return;
    }
    // Both pieces are joined anew.
    total_sums_ = activation(ring_.sum_bytes(2));
    total_ = activation(ring_.query_elements(2) * 4);
    drop({&sums, &out});
  }

  // out - sigmoid(block_sums - sums) * (out - block_out)
  Tensor corrected(std::uint64_t bytes, std::uint64_t sum_bytes) {
    Tensor difference = activation(sum_bytes);
    Tensor weight = activation(sum_bytes);
    difference.reset();
    Tensor distance = activation(bytes);
    Tensor weighted = activation(bytes);
    drop({&weight, &distance});
    return activation(bytes);
  }

  // sums - logsigmoid(sums - block_sums)
  Tensor corrected_sums(std::uint64_t sum_bytes) {
    Tensor difference = activation(sum_bytes);
    Tensor logarithm = activation(sum_bytes);
    difference.reset();
    return activation(sum_bytes);
  }

  Tape& tape_;
  const Ring& ring_;
  Tensor out_, sums_, seed_, offset_;  // of the last step
  bool has_total_ = false;
  Tensor total_, total_sums_;
};

}  // namespace

RingPair contiguous_pair(Tape& tape, const Ring& ring, const Tensor& key, const Tensor& value) {
  const std::uint64_t size_bytes = ring.pair_bytes(ring.width) / 2;
  const auto contiguous = [&](const Tensor& input, bool is_apart) {
    return is_apart ? input : tape.activation(size_bytes);
  };
  Tensor own_key = contiguous(key, ring.key_apart);
  return {.key = std::move(own_key), .value = contiguous(value, ring.value_apart)};
}

void RingExchange::begin(Tensor sent, std::uint64_t size_bytes) {
  if (gathers_ && has_sent_) return;
  has_sent_ = true;
  const std::uint64_t all_bytes = gathers_ ? ranks_ * size_bytes : size_bytes;
  Tensor incoming = tape_->allocate(all_bytes, TensorKind::Communication);
  tape_->communicate(all_bytes, kGatherStream, RankGroup::Context);
  buffer_ = std::move(incoming);
  sent_ = std::move(sent);
}

Var ring_attention(Tape& tape, Var query, Var key, Var value, const RingShape& shape) {
  narrow(tape, {&value, &key, &query});
  const Ring ring{.shape = shape,
                  .width = query.width,
                  .query_apart = query.heads_first,
                  .key_apart = key.heads_first,
                  .value_apart = value.heads_first};
  Node* node = tape.record(ring_attention_backward, {&query, &key, &value});
  if (node != nullptr) node->remembered = std::make_shared<const Ring>(ring);
  tape.save(node, 1, key.tensor);
  tape.save(node, 2, query.tensor);
  tape.save(node, 3, value.tensor);
  RingForward::Result result = RingForward(&tape, ring).run(key.tensor, value.tensor);
  Var out{.tensor = std::move(result.out),
          .count = ring.query_elements(2),
          .width = query.width,
          .heads_first = ring.has_partial_steps()};
  tape.save(node, 4, result.sums);
  tape.save(node, 5, out.tensor);
  tape.save(node, 6, result.offset);
  tape.save(node, 7, result.seed);
  tape.attach(node, &out);
  drop({&result.sums, &result.seed, &result.offset});
  drop({&query, &key, &value});
  return out;
}

}  // namespace allocmark

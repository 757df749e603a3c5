// What the forward and the backward of ring_attention.h share: the steps around the ring, and what
// is sent from rank to rank.
#pragma once

#include <cstdint>

#include "base/divided_up.h"
#include "workloads/model/ring_attention.h"
#include "workloads/model/tape.h"

namespace allocmark {

// Which of the two pieces take part in a step, counted in halves of this rank's tokens.
struct RingBlock {
  std::uint64_t query_halves = 2;
  std::uint64_t key_halves = 2;
  [[nodiscard]] bool is_partial() const { return query_halves == 1; }
};

// What a node remembers for its backward.
struct Ring {
  RingShape shape;
  std::uint64_t width = 2;                                           // bytes per element
  bool query_apart = false, key_apart = false, value_apart = false;  // have the heads first

  [[nodiscard]] RingBlock block(std::uint64_t step) const {
    if (step == 0) return {};
    return step <= shape.rank ? RingBlock{.key_halves = 1} : RingBlock{.query_halves = 1};
  }
  [[nodiscard]] bool has_partial_steps() const { return shape.rank + 1 < shape.ranks; }
  [[nodiscard]] bool is_narrow() const { return width != 4; }
  // Rows of scores, elements of queries, in so many halves of the tokens.
  [[nodiscard]] std::uint64_t rows(std::uint64_t halves) const {
    return shape.batch * shape.head_count * shape.token_count * halves / 2;
  }
  [[nodiscard]] std::uint64_t query_elements(std::uint64_t halves) const {
    return rows(halves) * shape.head_width;
  }
  // Logarithms of row sums: the memory-efficient kernel makes them for blocks of 32 rows.
  [[nodiscard]] std::uint64_t sum_bytes(std::uint64_t halves) const {
    if (is_narrow()) return rows(halves) * 4;
    const std::uint64_t blocks = divided_up(shape.token_count * halves / 2, 32);
    return shape.batch * shape.head_count * blocks * 32 * 4;
  }
  // Keys and values as they travel.
  [[nodiscard]] std::uint64_t pair_bytes(std::uint64_t bytes) const {
    return 2 * query_elements(2) / shape.repeats * bytes;
  }
};

// Keys and values that the variables of one step hold. The kernel's arguments are still the last
// step's while the next pair is sent.
struct RingPair {
  Tensor key, value;
};

[[nodiscard]] RingPair contiguous_pair(Tape& tape, const Ring& ring, const Tensor& key,
                                       const Tensor& value);

// Passes a buffer on to the next rank, or gathers those of all once. What is sent lives until
// somebody waits for what comes.
class RingExchange {
 public:
  RingExchange(Tape* tape, std::uint64_t ranks, bool gathers)
      : tape_(tape), ranks_(ranks), gathers_(gathers) {}

  void begin(Tensor sent, std::uint64_t size_bytes);
  [[nodiscard]] const Tensor& wait() {
    sent_.reset();
    return buffer_;
  }
  void clear() { buffer_.reset(); }

 private:
  Tape* tape_;
  std::uint64_t ranks_;
  bool gathers_;
  bool has_sent_ = false;
  Tensor buffer_, sent_;
};

// Of a node that ring_attention() recorded.
void ring_attention_backward(Tape& tape, Node& node, Backprop& b);

}  // namespace allocmark

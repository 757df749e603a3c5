// What transformers' generate() makes of the logits to draw a token: two processors that forbid the
// end before the wanted length, top-k, top-p over the sorted words, shares, and torch.multinomial.
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

class Sampling {
 public:
  explicit Sampling(Tape* tape) : tape_(tape) {}

  // Of `rows` sequences over `vocabulary` words, whose logits in four bytes the caller holds. Gives
  // the drawn words.
  [[nodiscard]] Tensor draw(std::uint64_t rows, std::uint64_t vocabulary);

 private:
  [[nodiscard]] Tensor make(std::uint64_t size_bytes) { return tape_->activation(size_bytes); }
  [[nodiscard]] Tensor forbid_end(Tensor scores);
  [[nodiscard]] Tensor keep_best(Tensor scores);
  [[nodiscard]] Tensor keep_likely();
  [[nodiscard]] Tensor multinomial();

  Tape* tape_;
  std::uint64_t rows_ = 0, vocabulary_ = 0;
  Tensor scores_, shares_;
};

}  // namespace allocmark

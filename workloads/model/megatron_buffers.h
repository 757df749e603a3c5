// What Megatron-LM keeps beside a model: gradients of all parameters in one buffer in four bytes,
// parameters in four bytes, Adam's two states; the last three shared over the data parallel ranks
// by the distributed optimizer, which also puts the parameters into one buffer.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/setup.h"
#include "workloads/model/tape.h"

namespace allocmark {

class MegatronBuffers {
 public:
  MegatronBuffers(const ParallelSetup& parallel, bool distributed, Tape* tape)
      : parallel_(parallel), distributed_(distributed), tape_(tape) {}

  void wrap();
  // The gradient is in the buffer; autograd's own tensor goes.
  void on_gradient(std::size_t parameter);
  void step();
  void clear();

 private:
  [[nodiscard]] std::vector<std::uint64_t> own_counts() const;

  ParallelSetup parallel_;
  bool distributed_;
  Tape* tape_;
  std::uint64_t padded_count_ = 0;
  Tensor parameters_, gradients_;
  std::vector<Tensor> masters_, states_;
};

}  // namespace allocmark

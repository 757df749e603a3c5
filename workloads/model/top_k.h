// torch.topk: its results, and the buffers of rows that several blocks share
// (ATen/native/cuda/TensorTopK.cu).
#pragma once

#include <cstdint>

#include "workloads/model/tape.h"

namespace allocmark {

struct TopKSizes {
  std::uint64_t slices = 1;   // rows
  std::uint64_t columns = 1;  // numbers of four bytes in each
  std::uint64_t count = 1;    // of the largest in each
};

struct TopK {
  Tensor values, indexes;
};

[[nodiscard]] TopK top_k(Tape& tape, const TopKSizes& sizes);

}  // namespace allocmark

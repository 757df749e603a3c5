// torch.topk (functions.h).
#include <algorithm>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {
namespace {

// Rows that torch.topk gives to several blocks (ATen/native/cuda/TensorTopK.cu).
bool takes_several_blocks(std::uint64_t slices, std::uint64_t columns) {
  if (slices <= 20) return columns >= 20'000;
  if (slices <= 40) return columns >= 10'000;
  if (slices <= 80) return columns >= 8'000;
  if (slices < 200) return columns >= 5'000;
  if (slices < 800) return columns >= 3'000;
  if (slices <= 4000) return columns >= 800;
  return columns >= 400;
}

}  // namespace

TopK top_k(Tape& tape, const TopKSizes& sizes) {
  TopK best;
  best.values = tape.activation(sizes.slices * sizes.count * 4);
  best.indexes = tape.activation(sizes.slices * sizes.count * 8);
  if (!takes_several_blocks(sizes.slices, sizes.columns)) return best;
  // Blocks of 256 threads, 6 to a multiprocessor, of which an H200 has 132; 256 digits.
  const std::uint64_t items =
      std::clamp<std::uint64_t>(divided_up(sizes.slices * sizes.columns, 132 * 6 * 256), 4, 64);
  const std::uint64_t blocks = sizes.slices * divided_up(sizes.columns, items * 256);
  Tensor semaphores = tape.activation(sizes.slices * 4);
  Tensor left_to_find = tape.activation(sizes.slices * 8);
  Tensor wanted = tape.activation(sizes.slices * 8);
  Tensor counts = tape.activation(blocks * 256 * 2);
  Tensor sums = tape.activation(sizes.slices * 256 * 4);
  Tensor within = tape.activation(blocks * 4);
  Tensor at = tape.activation(blocks * 4);
  // The scans' own buffer, known for up to a thousand blocks.
  for (int i = 0; i < 2; ++i) const Tensor scan = tape.activation(1279);
  drop({&at, &within, &sums, &counts, &wanted, &left_to_find, &semaphores});
  return best;
}

}  // namespace allocmark

// PyTorch's reductions of a whole tensor, a norm that is written out, a mean of rows, and
// torch.topk (functions.h).
#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/functions.h"
#include "workloads/model/module_scope.h"

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

Waves waves_of(Tape& tape, std::uint64_t count, std::uint64_t width) {
  const std::uint64_t half = width / 2;
  Waves out{.frequencies = tape.make(half, 4), .angles = {}, .waves = {}};
  for (int i = 0; i < 2; ++i) out.frequencies = tape.make(half, 4);
  {
    const Var exact = tape.make(count, 4);
    out.angles = tape.make(count * half, 4);
  }
  const Var first = tape.make(count * half, 4);
  const Var second = tape.make(count * half, 4);
  out.waves = tape.make(count * width, 4);
  return out;
}

Var mean_squared_error(Tape& tape, Var predicted, const Tensor& wanted) {
  if (tape.autocast()) predicted = cast(tape, std::move(predicted), 4);
  Node* node = tape.record(new_gradients, {&predicted}, {predicted.size_bytes()});
  tape.save(node, 0, predicted.tensor);
  tape.save(node, 1, wanted);
  // The loss is made as large as what it is the mean of.
  Var loss = tape.result(node, predicted.count, predicted.width);
  {
    const Var squares = tape.make(predicted.count, predicted.width);
    take_reduction_scratch(tape, predicted.count, 4);
  }
  loss.count = 1;
  return loss;
}

// 512 threads read 16 elements each before blocks share the work, as many as keep the GPU busy;
// those meet in a buffer, guarded by a counter (ATen/native/cuda/Reduce.cuh).
void take_reduction_scratch(Tape& tape, std::uint64_t count, std::uint64_t width,
                            std::uint64_t rows) {
  const std::uint64_t per_thread = divided_up(count, 512);
  constexpr std::uint64_t kBlocksWanted = 132 * 4;
  if (per_thread < 256 || rows > kBlocksWanted) return;
  const std::uint64_t blocks =
      std::max(std::min(divided_up(kBlocksWanted, rows), divided_up(per_thread, 16)),
               divided_up(per_thread, 256));
  const Tensor buffer = tape.scratch(rows * blocks * width);
  const Tensor counter = tape.scratch(rows * 4);
}

void take_look_back(Tape& tape, std::uint64_t tile_count, std::uint64_t tile_bytes) {
  const std::uint64_t states_bytes = (32 + tile_count) * tile_bytes;
  tape.take_scratch(divided_up(states_bytes, 256) * 256 + 511);
}

void take_running_sum_scratch(Tape& tape, std::uint64_t count) {
  take_look_back(tape, divided_up(count, 896), 16);
}

Var rms_norm_written_out(Tape& tape, Var input, std::uint64_t rows, std::size_t weight) {
  const ModuleScope module(tape, {.parameters = {weight}});
  const std::uint64_t width = input.width;
  input = cast(tape, std::move(input), 4);
  Var variance = mean_of_rows(tape, power(tape, input), rows);
  Var root = rsqrt(tape, add_scalar(tape, variance));
  input = multiply(tape, input, std::move(root));
  Var out = multiply(tape, tape.parameter(weight), cast(tape, input, width));
  drop({&input, &variance});
  return out;
}

Var mean_pooling(Tape& tape, Var states, const PoolingSizes& sizes) {
  const std::uint64_t width = states.width;
  Var mask = tape.make(sizes.batch * sizes.length, width);
  Var masked = tape.make(sizes.batch * sizes.length * sizes.hidden, width);
  Var sum = tape.make(sizes.batch * sizes.hidden, width);
  masked.drop();
  Var lengths = tape.make(sizes.batch, width);
  Var mean = tape.make(sizes.batch * sizes.hidden, width);
  drop({&sum, &lengths});
  Var norm = tape.make(sizes.batch, width);
  norm = tape.make(sizes.batch, width);  // at least 1e-12
  Var unit = tape.make(sizes.batch * sizes.hidden, width);
  drop({&mean, &norm, &states, &mask});
  return unit;
}

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

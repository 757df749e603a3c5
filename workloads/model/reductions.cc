// PyTorch's reductions of a whole tensor, a norm that is written out, and a mean of rows
// (functions.h).
#include <algorithm>
#include <utility>

#include "base/divided_up.h"
#include "workloads/model/functions.h"

namespace allocmark {

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

// 512 threads read 16 elements each before blocks share the work; those meet in a buffer, guarded
// by a counter (ATen/native/cuda/Reduce.cuh).
void take_reduction_scratch(Tape& tape, std::uint64_t count, std::uint64_t width,
                            std::uint64_t rows) {
  const std::uint64_t per_thread = divided_up(count, 512);
  if (per_thread < 256) return;
  const std::uint64_t blocks = std::max(
      std::min<std::uint64_t>(132 * 4, divided_up(per_thread, 16)), divided_up(per_thread, 256));
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

}  // namespace allocmark

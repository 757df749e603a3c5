#include "workloads/model/mean_pooling.h"

namespace allocmark {

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

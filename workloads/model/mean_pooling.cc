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
  sum.drop();
  lengths.drop();
  Var norm = tape.make(sizes.batch, width);
  norm = tape.make(sizes.batch, width);  // at least 1e-12
  Var unit = tape.make(sizes.batch * sizes.hidden, width);
  mean.drop();
  norm.drop();
  states.drop();
  mask.drop();
  return unit;
}

}  // namespace allocmark

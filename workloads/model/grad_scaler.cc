#include "workloads/model/grad_scaler.h"

#include <utility>

namespace allocmark {

Var GradScaler::scale(Tape& tape, Var loss) {
  if (scale_.count == 0) {
    scale_.count = 1;
    scale_.width = 4;
    scale_.tensor = tape.allocate(4, TensorKind::OptimizerState);
    tracker_ = tape.allocate(4, TensorKind::OptimizerState);
  }
  return multiply(tape, std::move(loss), scale_);
}

void GradScaler::unscale(Tape& tape) {
  // The reciprocal is taken in eight bytes.
  Tensor exact = tape.scratch(8);
  Tensor reciprocal = tape.scratch(8);
  exact.reset();
  Tensor inverse = tape.scratch(4);
  reciprocal.reset();
  Tensor found = look_for_infinities(tape);
  drop({&found, &inverse});
}

// Each device gets its own copy of the factor and of the result; what it finds stays in its copy.
Tensor GradScaler::look_for_infinities(Tape& tape) {
  Tensor found = tape.scratch(4);
  found_ = tape.scratch(4);
  const Tensor copied = tape.scratch(4);
  if (is_sharded_) const Tensor reduced = tape.scratch(4);
  return found;
}

void GradScaler::give(Tape& tape, bool is_unscaled) {
  if (!is_unscaled) {
    Tensor factor = tape.scratch(4);
    Tensor found = look_for_infinities(tape);
    drop({&factor, &found});
  }
  given_found_ = tape.scratch(4);
  if (!is_unscaled) given_scale_ = tape.scratch(4);
}

void GradScaler::clear() {
  scale_.drop();
  drop({&tracker_, &found_});
}

}  // namespace allocmark

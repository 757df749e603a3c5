#include "workloads/model/grad_scaler.h"

#include <utility>

namespace allocmark {
namespace {

Tensor number(Tape& tape, std::uint64_t size_bytes = 4) { return tape.scratch(size_bytes); }

}  // namespace

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
  Tensor exact = number(tape, 8);
  Tensor reciprocal = number(tape, 8);
  exact.reset();
  Tensor inverse = number(tape);
  reciprocal.reset();
  Tensor found = look_for_infinities(tape);
  drop({&found, &inverse});
}

// Each device gets its own copy of the factor and of the result; what it finds stays in its copy.
Tensor GradScaler::look_for_infinities(Tape& tape) {
  Tensor found = number(tape);
  found_ = number(tape);
  const Tensor copied = number(tape);
  return found;
}

void GradScaler::give(Tape& tape, bool is_unscaled) {
  if (!is_unscaled) {
    Tensor factor = number(tape);
    Tensor found = look_for_infinities(tape);
    drop({&factor, &found});
  }
  given_found_ = number(tape);
  if (!is_unscaled) given_scale_ = number(tape);
}

void GradScaler::clear() {
  scale_.drop();
  drop({&tracker_, &found_});
}

}  // namespace allocmark

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
  const auto number = [&tape](std::uint64_t size_bytes) {
    return tape.allocate(size_bytes, TensorKind::Workspace);
  };
  // The reciprocal is taken in eight bytes.
  Tensor exact = number(8);
  Tensor reciprocal = number(8);
  exact.reset();
  Tensor inverse = number(4);
  reciprocal.reset();
  Tensor found = number(4);
  // Each device gets its own copy of both; what it finds stays in its copy.
  found_ = number(4);
  Tensor copied = number(4);
  drop({&copied, &found, &inverse});
}

void GradScaler::clear() {
  scale_.drop();
  drop({&tracker_, &found_});
}

}  // namespace allocmark

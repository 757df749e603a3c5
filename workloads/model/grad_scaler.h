// torch.amp.GradScaler: what float16 training puts around its backward and its optimizer's step. A
// few numbers on the device; gradients are scaled back in place, and looked through for infinities
// on the way.
#pragma once

#include "workloads/model/functions.h"

namespace allocmark {

class GradScaler {
 public:
  // scale(loss): the scale and its tracker are made with the first loss. What comes out is what the
  // backward begins with.
  [[nodiscard]] Var scale(Tape& tape, Var loss);
  // unscale_(optimizer), or the part of step() that does it where the caller did not.
  void unscale(Tape& tape);
  // update(): what was found goes.
  void update() { found_.reset(); }
  void clear();

 private:
  Var scale_;
  Tensor tracker_, found_;
};

}  // namespace allocmark

// torch.amp.GradScaler: what float16 training puts around its backward and its optimizer's step. A
// few numbers on the device; gradients are scaled back in place, and looked through for infinities
// on the way.
#pragma once

#include "workloads/model/functions.h"

namespace allocmark {

class GradScaler {
 public:
  // is_sharded: gradients are (FSDP 2), and what was found is reduced over the ranks.
  explicit GradScaler(bool is_sharded) : is_sharded_(is_sharded) {}
  // scale(loss): the scale and its tracker are made with the first loss. What comes out is what the
  // backward begins with.
  [[nodiscard]] Var scale(Tape& tape, Var loss);
  // unscale_(optimizer), or the part of step() that does it where the caller did not.
  void unscale(Tape& tape);
  // What step() gives to a fused optimizer, which scales gradients back itself: the scale and
  // whether an infinity was found. It looks for them unless the caller has unscaled.
  void give(Tape& tape, bool is_unscaled);
  // step() ends, and update(): what was given and found goes.
  void update() { drop({&given_scale_, &given_found_, &found_}); }
  void clear();

 private:
  [[nodiscard]] Tensor look_for_infinities(Tape& tape);

  bool is_sharded_;
  Var scale_;
  Tensor tracker_, found_, given_scale_, given_found_;
};

}  // namespace allocmark

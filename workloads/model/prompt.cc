// See prompt.h.
#include "workloads/model/prompt.h"

#include "workloads/model/functions.h"

namespace allocmark {

void take_prompt(Tape* tape, const PromptSizes& sizes, bool for_encoder, PromptTensors kept) {
  const auto make = [&](std::uint64_t size_bytes) {
    return tape->allocate(size_bytes, TensorKind::Activation);
  };
  *kept.ids = make(sizes.batch * sizes.length * 8);
  if (sizes.image_bytes > 0) *kept.images = make(sizes.image_bytes);
  *kept.mask = make(sizes.batch * sizes.length * 8);
  for (Tensor& token : kept.special) token = make(8);
  {
    Tensor known = make(1);
    Tensor compared = make(1);
    Tensor any = make(1);
    drop({&any, &compared});
    const Tensor both = make(1);
    known.reset();
  }
  for (const bool is_last_token : {false, true}) {
    // Padding is looked for where several texts can differ in length.
    if (is_last_token && (for_encoder || sizes.batch == 1)) break;
    Tensor compared = make(is_last_token ? sizes.batch : 1);
    Tensor any = make(1);
    drop({&compared, &any});
  }
}

Tensor make_positions(Tape* tape, const PromptSizes& sizes) {
  const auto make = [&](std::uint64_t size_bytes) {
    return tape->allocate(size_bytes, TensorKind::Activation);
  };
  const std::uint64_t all = sizes.batch * sizes.length * 8;
  Tensor sums = make(all);
  if (sizes.batch == 1) take_running_sum_scratch(*tape, sizes.length);
  Tensor lowered = make(all);
  sums.reset();
  Tensor hidden = make(sizes.batch * sizes.length);
  Tensor positions = make(all);
  drop({&hidden, &lowered});
  return positions;
}

}  // namespace allocmark

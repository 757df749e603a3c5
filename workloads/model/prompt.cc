// See prompt.h.
#include "workloads/model/prompt.h"

#include <utility>

#include "workloads/model/functions.h"

namespace allocmark {

void take_prompt(Tape* tape, const PromptSizes& sizes, bool for_encoder, PromptTensors kept) {
  *kept.ids = tape->activation(sizes.batch * sizes.length * 8);
  if (sizes.image_bytes > 0) *kept.images = tape->activation(sizes.image_bytes);
  *kept.mask = tape->activation(sizes.batch * sizes.length * 8);
  take_special_tokens(tape, kept.special);
  // Padding is looked for where several texts can differ in length.
  if (for_encoder || sizes.batch == 1) return;
  Tensor compared = tape->activation(sizes.batch);
  Tensor any = tape->activation(1);
  drop({&compared, &any});
}

void take_special_tokens(Tape* tape, std::span<Tensor, 3> special) {
  for (Tensor& token : special) token = tape->activation(8);
  {
    Tensor known = tape->activation(1);
    Tensor compared = tape->activation(1);
    Tensor any = tape->activation(1);
    drop({&any, &compared});
    const Tensor both = tape->activation(1);
    known.reset();
  }
  Tensor compared = tape->activation(1);
  Tensor any = tape->activation(1);
  drop({&compared, &any});
}

void copy_settings(Tape* tape, std::span<Tensor, 3> copies) {
  for (Tensor& copy : copies) {
    copy = tape->activation(8);
    const Tensor values = tape->activation(8);
  }
}

Tensor make_positions(Tape* tape, const PromptSizes& sizes) {
  const std::uint64_t all = sizes.batch * sizes.length * 8;
  Tensor sums = tape->activation(all);
  if (sizes.batch == 1) take_running_sum_scratch(*tape, sizes.length);
  Tensor lowered = tape->activation(all);
  sums.reset();
  Tensor hidden = tape->activation(sizes.batch * sizes.length);
  Tensor positions = tape->activation(all);
  drop({&hidden, &lowered});
  return positions;
}

Tensor grow_inputs(Tape* tape, std::uint64_t rows, std::uint64_t context, Tensor* positions,
                   Tensor* before) {
  const std::uint64_t longer_bytes = rows * (context + 1) * 8;
  {
    Tensor one = tape->activation(8);
    Tensor last = tape->activation(rows * 8);
    one.reset();
    Tensor next = tape->activation(rows * 8);
    last.reset();
    *before = std::exchange(*positions, tape->activation(longer_bytes));
    next.reset();
  }
  const Tensor one = tape->activation(rows * 8);
  return tape->activation(longer_bytes);
}

Tensor test_answers(Tape* tape, std::uint64_t answer_count) {
  const auto make = [&] { return tape->activation(answer_count); };
  Tensor ended = make();
  Tensor of_length = make();
  Tensor first = make();
  drop({&of_length, &ended});
  Tensor ids = make();
  Tensor compared = make();
  Tensor any = make();
  drop({&any, &compared});
  Tensor second = make();
  ids.reset();
  Tensor either = make();
  drop({&second, &first});
  return either;
}

}  // namespace allocmark

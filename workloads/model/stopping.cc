// See stopping.h.
#include "workloads/model/stopping.h"

namespace allocmark {

Tensor test_answers(Tape& tape, std::uint64_t answer_count) {
  const auto make = [&] { return tape.allocate(answer_count, TensorKind::Activation); };
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

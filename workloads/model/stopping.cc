// See stopping.h.
#include "workloads/model/stopping.h"

namespace allocmark {

Tensor test_answers(Tape& tape, std::uint64_t answer_count) {
  const auto make = [&] { return tape.allocate(answer_count, TensorKind::Activation); };
  Tensor ended = make();
  Tensor of_length = make();
  Tensor first = make();
  of_length.reset();
  ended.reset();
  Tensor ids = make();
  Tensor compared = make();
  Tensor any = make();
  any.reset();
  compared.reset();
  Tensor second = make();
  ids.reset();
  Tensor either = make();
  second.reset();
  first.reset();
  return either;
}

}  // namespace allocmark

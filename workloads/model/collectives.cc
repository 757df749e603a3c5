#include "workloads/model/collectives.h"

#include <algorithm>
#include <utility>

namespace allocmark {
namespace {

Tensor communicated(Tape& tape, std::uint64_t size_bytes) {
  return tape.allocate(size_bytes, TensorKind::Communication);
}

// What a rank gets of an exchange of `whole` bytes: a copy of the whole comes before it is cut, or
// after its pieces were gathered.
Tensor exchanged(Tape& tape, std::uint64_t result, std::uint64_t whole, bool copies) {
  Tensor first;
  if (copies) first = communicated(tape, whole);
  return communicated(tape, result);
}

// sizes: bytes of the gradient that goes on, bytes that are sent, whether in place, whether the
// whole is copied.
void collective_backward(Tape& tape, Node& node, Backprop& b) {
  tape.communicate(node.sizes[1], kGatherStream, RankGroup::Tensor);
  if (node.sizes[2] == 1) {
    b.out[0] = std::move(b.gradient);
    return;
  }
  b.out[0].tensor = exchanged(tape, node.sizes[0], node.sizes[1], node.sizes[3] == 1);
}

struct Exchange {
  BackwardFunction backward = nullptr;
  std::uint64_t count = 0;  // elements of the result
  bool allocates = true;    // a result of its own
  bool in_place_back = false;
  bool copies_whole = false;
  bool copies_back = false;  // the gradient's
  bool is_awaited = false;   // whoever uses the result waits for it
};

Var exchange(Tape& tape, Var input, const Exchange& kind) {
  Node* node =
      tape.record(kind.backward, {&input},
                  {input.size_bytes(), std::max(input.size_bytes(), kind.count * input.width),
                   kind.in_place_back ? 1u : 0u, kind.copies_back ? 1u : 0u});
  Var out{.tensor = {}, .count = kind.count, .width = input.width};
  const std::uint64_t whole = std::max(input.size_bytes(), out.size_bytes());
  out.tensor =
      kind.allocates ? exchanged(tape, out.size_bytes(), whole, kind.copies_whole) : input.tensor;
  if (kind.backward != collective_backward || kind.allocates) {
    tape.communicate(std::max(input.size_bytes(), out.size_bytes()), kGatherStream,
                     RankGroup::Tensor);
  }
  tape.attach(node, &out);
  if (kind.is_awaited) tape.hold_until_used(std::move(input.tensor), out);
  input.drop();
  return out;
}

}  // namespace

Var copy_to_ranks(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count;
  return exchange(tape, std::move(input),
                  {.backward = collective_backward,
                   .count = count,
                   .allocates = false,
                   .in_place_back = group.in_place});
}

Var sum_over_ranks(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count;
  return exchange(tape, std::move(input),
                  {.backward = pass_on, .count = count, .allocates = !group.in_place});
}

Var gather_tokens(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count * group.ranks;
  return exchange(tape, std::move(input),
                  {.backward = collective_backward,
                   .count = count,
                   .copies_whole = group.copies_whole && !group.one_sequence,
                   .copies_back = group.copies_whole});
}

Var gather_columns(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count * group.ranks;
  return exchange(tape, std::move(input),
                  {.backward = new_gradients, .count = count, .copies_whole = group.copies_whole});
}

Var reduce_scatter_tokens(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count / group.ranks;
  return exchange(tape, std::move(input),
                  {.backward = collective_backward,
                   .count = count,
                   .copies_whole = group.copies_whole,
                   .copies_back = group.copies_whole && !group.one_sequence,
                   .is_awaited = group.copies_whole});
}

}  // namespace allocmark

#include "workloads/model/collectives.h"

#include <algorithm>
#include <utility>

namespace allocmark {
namespace {

Tensor communicated(Tape& tape, std::uint64_t size_bytes) {
  return tape.allocate(size_bytes, TensorKind::Communication);
}

// sizes: bytes of the gradient that goes on, bytes that are sent, whether in place.
void collective_backward(Tape& tape, Node& node, Backprop& b) {
  tape.communicate(node.sizes[1], kGatherStream);
  if (node.sizes[2] == 1) {
    b.out[0] = std::move(b.gradient);
    return;
  }
  b.out[0].tensor = communicated(tape, node.sizes[0]);
}

void own_part_backward(Tape& tape, Node& node, Backprop& b) {
  b.out[0].tensor = tape.gradient(node.sizes[0]);
}

void identity_backward(Tape&, Node&, Backprop& b) { b.out[0] = std::move(b.gradient); }

struct Exchange {
  BackwardFunction backward = nullptr;
  std::uint64_t count = 0;  // elements of the result
  bool allocates = true;    // a result of its own
  bool in_place_back = false;
};

Var exchange(Tape& tape, Var input, const Exchange& kind) {
  Node* node = tape.record(kind.backward, {&input});
  if (node != nullptr) {
    node->sizes[0] = input.size_bytes();
    node->sizes[1] = std::max(input.size_bytes(), kind.count * input.width);
    node->sizes[2] = kind.in_place_back ? 1 : 0;
  }
  Var out;
  out.count = kind.count;
  out.width = input.width;
  out.tensor = kind.allocates ? communicated(tape, out.size_bytes()) : input.tensor;
  if (kind.backward != collective_backward || kind.allocates) {
    tape.communicate(std::max(input.size_bytes(), out.size_bytes()), kGatherStream);
  }
  tape.attach(node, &out);
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
                  {.backward = identity_backward, .count = count, .allocates = !group.in_place});
}

Var gather_tokens(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count * group.ranks;
  return exchange(tape, std::move(input), {.backward = collective_backward, .count = count});
}

Var gather_columns(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count * group.ranks;
  return exchange(tape, std::move(input), {.backward = own_part_backward, .count = count});
}

Var reduce_scatter_tokens(Tape& tape, Var input, const CollectiveGroup& group) {
  if (group.ranks == 1) return input;
  const std::uint64_t count = input.count / group.ranks;
  return exchange(tape, std::move(input), {.backward = collective_backward, .count = count});
}

Var split_tokens(Tape& tape, Var input, const CollectiveGroup& group) {
  return reduce_scatter_tokens(tape, std::move(input), group);
}

}  // namespace allocmark

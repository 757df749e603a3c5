// LLaVA as transformers writes it: a ViT sees images, a projector widens its patches, and a Llama
// reads them in the places that its text keeps for them.
#include <utility>
#include <vector>

#include "base/divided_up.h"
#include "workloads/model/transformer.h"

namespace allocmark {
namespace {

constexpr std::uint64_t kIndexBytes = 8;

// A sum by CUB: four bytes for each of five blocks on each of eight places of 132 processors.
constexpr std::uint64_t kSumBytes = divided_up(4 * 5 * 8 * 132, 256) * 256 + 255;

// The words' gradient without the images' places, then what stood in these: their places are looked
// for, three numbers for each element. sizes: bytes of the words, of the rows; elements of each.
void scatter_backward(Tape& tape, Node& node, Backprop& b) {
  const std::uint64_t word_count = node.sizes[2];
  b.out[0].tensor = tape.gradient(node.sizes[0]);
  if (node.edges[1] == kNoEdge) return;
  Tensor places;
  {
    const Tensor mask = tape.scratch(word_count);
    const Tensor found = tape.scratch(4);
    tape.take_scratch(kSumBytes);
    places = tape.scratch(node.sizes[3] * 3 * kIndexBytes);
    // A choice of places has tiles of 4096.
    take_look_back(tape, divided_up(word_count, 4096), 8);
  }
  b.out[1].tensor = tape.gradient(node.sizes[1]);
}

}  // namespace

void Transformer::make_tower() {
  TransformerSetup seen = setup_;
  seen.model = setup_.vision;
  seen.model.vocabulary = setup_.vision.hidden;  // its pooler, in the place of a head
  seen.vision = {};
  seen.frozen = setup_.vision_frozen;
  seen.float8 = false;
  tower_ = std::make_unique<Transformer>(seen, &tape_);
}

void Transformer::make_tower_parameters() {
  tower_->make_parameters();
  projector_ = add_weight_and_bias(setup_.vision.hidden, setup_.model.hidden);
  static_cast<void>(add_weight_and_bias(setup_.model.hidden, setup_.model.hidden));
}

// Nothing that a loss depends on comes after the last but one block: its last one, the norm and the
// pooler get no gradient.
std::vector<std::size_t> Transformer::trained_tower_parameters() {
  std::vector<std::size_t> order;
  const std::size_t end = tower_->layer_parameters_.back().first;
  if (!setup_.vision_frozen) {
    order = {tower_->class_token_, tower_->position_table_};
    for (std::size_t i = tower_->patch_weight_; i < end; ++i) {
      if (i != tower_->class_token_ && i != tower_->position_table_) order.push_back(i);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) order.push_back(projector_ + i);
  return order;
}

// The states after the last but one block, without the class token. All states are kept until they
// are projected.
Var Transformer::image_states() {
  Transformer& tower = *tower_;
  const std::uint64_t blocks = setup_.vision.layer_count;
  std::vector<Tensor> kept;
  Var hidden = tower.embed(conditions_.images);
  kept.push_back(hidden.tensor);
  Var chosen = hidden;
  std::size_t first_unused = 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    if (i + 1 == blocks) {
      chosen = hidden;
      first_unused = tape_.node_count();
    }
    Var output = tower.layer(i, hidden);
    hidden = std::move(output);
    kept.push_back(hidden.tensor);
  }
  Var last = tower.finish(std::move(hidden));
  Var pooled = activation_of_result(tape_, tower.vit_logits(last));
  const std::size_t end_unused = tape_.node_count();
  // The class token's rows are cut off; their gradient is zero.
  Node* cut = tape_.record(new_gradients, {&chosen}, {chosen.size_bytes()});
  tape_.attach(cut, &chosen);
  chosen.count = setup_.batch * setup_.vision.patch_count() * setup_.vision.hidden;
  Var projected = project(std::move(chosen));
  drop({&pooled, &last});
  while (!kept.empty()) kept.pop_back();
  tape_.forget_nodes(first_unused, end_unused);
  return projected;
}

// Rows that are not contiguous, those of several images, are copied, by autocast's cast too;
// without it the first product's bias is added in place.
Var Transformer::project(Var states) {
  const std::uint64_t rows = setup_.batch * setup_.vision.patch_count();
  const LinearWeights first{.weight = projector_, .bias = projector_ + 1};
  Var inner = setup_.autocast || setup_.batch == 1
                  ? linear(tape_, std::move(states), rows, first)
                  : linear_of_copy(tape_, std::move(states), rows, first);
  inner = activation_of_input(tape_, std::move(inner));
  return linear(tape_, std::move(inner), rows, {.weight = projector_ + 2, .bias = projector_ + 3});
}

Var Transformer::with_images(Var words) {
  const std::uint64_t tokens = setup_.token_count();
  Var apart = image_states();
  // Each image's rows are views: their gradients are stacked.
  Node* split = tape_.record(new_gradients, {&apart}, {apart.size_bytes()});
  tape_.attach(split, &apart);
  Node* joined = tape_.record(pass_on_view, {&apart});
  image_rows_ = tape_.make(apart.count, apart.width);
  tape_.attach(joined, &image_rows_);
  apart.drop();
  image_rows_ = cast(tape_, std::move(image_rows_), words.width);
  image_mask_ = tape_.activation(tokens);
  {
    const Var sum = tape_.make(1, kIndexBytes);
    { const Var numbers = tape_.make(tokens, kIndexBytes); }
    Var elements = tape_.make(1, kIndexBytes);
    const Var equal = tape_.make(1, 1);
    { const Var all = tape_.make(1, 1); }
    elements.drop();
  }
  Node* node =
      tape_.record(scatter_backward, {&words, &image_rows_},
                   {words.size_bytes(), image_rows_.size_bytes(), words.count, image_rows_.count});
  tape_.save(node, 0, image_mask_);
  Var out = tape_.result(node, words.count, words.width);
  {
    const Var places = tape_.make(words.count, kIndexBytes);
    const Var mask = tape_.make(words.count, 1);
    take_running_sum_scratch(tape_, words.count);
  }
  words.drop();
  return out;
}

}  // namespace allocmark

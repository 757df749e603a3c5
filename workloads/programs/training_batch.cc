// The batches that Training's passes get, and what becomes of them where ranks share sequences.
#include <utility>

#include "workloads/programs/training.h"

namespace allocmark {

// The new batch is there before the variable lets go of the old one. Stages in between get none.
void Training::make_batch() {
  Pass& own = pass();
  const Transformer::InputSizes sizes = model_->input_sizes();
  if (config_.setup.model.family == ModelFamily::Dit) {
    make_noisy_batch(sizes);
  } else if (config_.setup.parallel.splits_sequences()) {
    make_split_batch(sizes.input_bytes);
  } else if (config_.is_scheduled()) {
    cut_batch();
  } else if (is_first() || is_last()) {
    make_texts(&own, 1);
    if (own.positions) model_->set_positions(own.positions);
  }
  if (config_.setup.sees_images()) {
    own.images = tape().activation(model_->image_bytes());
    model_->set_conditions({.images = own.images});
  }
}

// Words, mask, labels and positions of so many micro batches, beside those of the last step.
void Training::make_texts(Pass* pass, std::uint64_t micro_batches) {
  const Transformer::InputSizes sizes = model_->input_sizes();
  const std::uint64_t input_bytes = sizes.input_bytes * micro_batches;
  const std::uint64_t label_bytes = sizes.label_bytes * micro_batches;
  const bool has_labels = label_bytes > 0 || config_.padded || config_.packed;
  Tensor tokens = tape().activation(input_bytes);
  Tensor mask, labels, positions;
  if (config_.given_mask) mask = tape().activation(input_bytes);
  if (has_labels) labels = tape().activation(label_bytes > 0 ? label_bytes : input_bytes);
  if (config_.packed) {
    positions = tape().activation(input_bytes);
  } else if (config_.gives_positions()) {
    positions = tape().activation(pass->length * 8);
  }
  pass->tokens = std::move(tokens);
  pass->given_mask = std::move(mask);
  pass->labels = std::move(labels);
  pass->positions = std::move(positions);
}

// Every stage has the whole batch of a step; micro batches are views of it. With the next step's
// the logits of the last go.
void Training::cut_batch() {
  Pass& own = pass();
  if (pass_index_ == 0) {
    make_texts(&whole_, config_.accumulate);
    stage_outputs_.clear();
    make_stage_buffers();
  }
  own.tokens = whole_.tokens;
  own.given_mask = whole_.given_mask;
  own.labels = whole_.labels;
}

// Latents, their noise, times and classes replace those of the last step one by one.
void Training::make_noisy_batch(const Transformer::InputSizes& sizes) {
  Pass& own = pass();
  own.tokens = tape().activation(sizes.input_bytes);
  own.noise = tape().activation(sizes.input_bytes);
  own.times = tape().activation(sizes.label_bytes);
  own.labels = tape().activation(sizes.label_bytes);
  model_->set_conditions({.noise = own.noise, .times = own.times, .labels = own.labels});
}

// As transformers' Trainer prepares it: labels are shifted while sequences are whole, and positions
// are given.
void Training::make_split_batch(std::uint64_t piece_bytes) {
  Pass& own = pass();
  const std::uint64_t ranks = config_.setup.parallel.context;
  const std::uint64_t whole_bytes = piece_bytes * ranks;
  const std::uint64_t batch = whole_bytes / 8 / own.length;
  Tensor tokens = tape().activation(whole_bytes);
  Tensor labels = tape().activation(whole_bytes);
  Tensor mask;
  if (config_.given_mask) mask = tape().activation(whole_bytes);
  Tensor padded = tape().activation(whole_bytes + batch * 8);
  // Of one sequence all but the first label are contiguous.
  Tensor shifted = batch == 1 ? padded : tape().activation(whole_bytes);
  // Expanded over the sequences.
  Tensor positions = tape().activation(own.length * 8);
  padded.reset();
  own.tokens = std::move(tokens);
  own.labels = std::move(labels);
  own.given_mask = std::move(mask);
  own.shifted_labels = std::move(shifted);
  own.positions = std::move(positions);
  split_batch(piece_bytes);
  model_->set_positions(own.positions);
}

// Entering context_parallel(): every buffer's tokens are put in the order in which the ranks have
// them. This rank's are copied twice, and then into the buffer, which keeps its memory.
void Training::split_batch(std::uint64_t piece_bytes) {
  Pass& own = pass();
  const std::uint64_t buffer_count = config_.given_mask ? 5 : 4;
  {
    const Tensor order = tape().activation(own.length * 4);
    Tensor ordered;
    for (std::uint64_t i = 0; i < buffer_count; ++i) {
      ordered.reset();
      ordered = tape().activation(piece_bytes * config_.setup.parallel.context);
      own.pieces.push_back(tape().activation(piece_bytes));
    }
  }
  Tensor copy;
  for (std::uint64_t i = 0; i < buffer_count; ++i) {
    copy.reset();
    copy = tape().activation(piece_bytes);
  }
  // Positions have memory for one sequence only.
  if (piece_bytes > own.length * 8) own.positions = tape().activation(piece_bytes);
  own.pieces.push_back(std::move(copy));
}

// Leaving it: the list of pieces goes from its end, then the last copy.
void Training::join_batch() {
  std::vector<Tensor>& pieces = pass().pieces;
  if (pieces.empty()) return;
  for (std::size_t i = pieces.size() - 1; i-- > 0;) pieces[i].reset();
  pieces.clear();
  if (!config_.keeps_batch) release_batch(&pass());
}

// Without labels of their own the tokens are the labels.
const Tensor& Training::labels_of(const Pass& pass) {
  if (pass.shifted_labels) return pass.shifted_labels;
  return pass.labels ? pass.labels : pass.tokens;
}

void Training::release_batch(Pass* pass) {
  drop({&pass->tokens, &pass->given_mask, &pass->labels, &pass->shifted_labels, &pass->positions,
        &pass->noise, &pass->times, &pass->images});
}

}  // namespace allocmark

#include "workloads/model/generation.h"

#include <utility>

#include "workloads/model/functions.h"
#include "workloads/model/prompt.h"

namespace allocmark {

void Generation::begin_encoder(std::uint64_t batch, std::uint64_t length) {
  has_encoder_ = true;
  batch_ = batch;
  take_prompt(tape_, {batch, length}, true, {&given_ids_, &given_mask_, &given_images_, special_});
}

void Generation::begin_decoder() {
  ids_ = make(batch_ * 8);
  { const Tensor ones = make(batch_ * 8); }
  unfinished_ = make(batch_ * 8);
  tokens_ = make(batch_ * 8);
}

void Generation::begin(std::uint64_t batch, std::uint64_t length, std::uint64_t image_bytes) {
  batch_ = batch;
  take_prompt(tape_, {batch, length, image_bytes}, false,
              {&given_ids_, &given_mask_, &given_images_, special_});
  positions_ = make_positions(tape_, {batch, length});
  unfinished_ = make(batch * 8);
  tokens_ = make(batch * length * 8);
}

void Generation::begin_draft(const Tensor& mask, const Tensor& positions, std::uint64_t length,
                             bool continues) {
  batch_ = 1;
  mask_ = mask;
  positions_ = positions;
  {
    Tensor settings[3];
    copy_settings(tape_, settings);
    take_special_tokens(tape_, special_);
    for (Tensor& setting : settings) setting.reset();
  }
  unfinished_ = make(8);
  tokens_ = make(length * 8);
  if (continues) token_positions_ = make(length * 8);
}

// Positions and mask of one more token.
void Generation::grow(std::uint64_t context) {
  Tensor longer = grow_inputs(tape_, batch_, context, &positions_, &positions_before_);
  mask_before_ = std::exchange(mask_, std::move(longer));
  // The prompt's positions stay; later ones go here, and the mask with the last input.
  if (is_prompt_ || keeps_no_mask_) mask_before_.reset();
  if (!is_prompt_) positions_before_.reset();
}

void Generation::test_end() {
  Tensor either = test_answers(tape_, batch_);
  Tensor inverse = make(batch_);
  either.reset();
  Tensor unfinished = make(batch_ * 8);
  inverse.reset();
  unfinished_ = std::move(unfinished);
  Tensor most = make(8);
  Tensor none = make(1);
  drop({&most, &none});
}

void Generation::choose(Var logits, std::uint64_t context) {
  // The prompt's copy goes with the first pass, later inputs once the next ones are there.
  if (is_prompt_ && !has_encoder_) drop({&tokens_, &token_positions_});
  if (!has_encoder_) grow(context);
  if (is_prompt_) prompt_positions_ = std::move(positions_before_);
  is_prompt_ = false;
  exact_ = make(logits.count * 4);
  if (scores_ != nullptr) add_scores(logits.count);
  const std::uint64_t vocabulary = logits.count / batch_;
  Tensor best = samples_ ? sampling_.draw(batch_, vocabulary) : make(batch_ * 8);
  if (!samples_) take_reduction_scratch(*tape_, vocabulary, 16, batch_);
  chosen_.reset();
  Tensor kept = make(batch_ * 8);
  Tensor rest = make(batch_ * 8);
  Tensor padding = make(batch_ * 8);
  rest.reset();
  chosen_ = make(batch_ * 8);
  drop({&kept, &padding, &best});
  ids_ = make(batch_ * (context + 1) * 8);
  test_end();
}

void Generation::make_inputs() {
  Tensor tokens = make(batch_ * 8);
  Tensor token_positions;
  if (!has_encoder_) token_positions = make(batch_ * 8);
  tokens_ = std::move(tokens);
  token_positions_ = std::move(token_positions);
  mask_before_.reset();
}

// MinNewTokensLengthLogitsProcessor where nothing is forbidden yet.
void Generation::add_scores(std::uint64_t count) {
  const std::uint64_t vocabulary = count / batch_;
  Tensor words = make(vocabulary * 8);
  Tensor is_end = make(vocabulary);
  {
    Tensor compared = make(vocabulary);
    Tensor any = make(vocabulary);
    drop({&any, &compared});
  }
  scores_->push_back(make(count * 4));
  drop({&words, &is_end});
}

void Generation::end_draft() {
  drop({&mask_, &positions_, &unfinished_, &tokens_, &token_positions_, &mask_before_,
        &positions_before_, &exact_, &chosen_});
  drop({&special_[0], &special_[2], &special_[1]});
  end();
}

void Generation::end() {
  std::vector<Tensor>* const scores = scores_;
  *this = Generation(tape_, samples_, keeps_no_mask_);
  scores_ = scores;
}

}  // namespace allocmark

// What transformers' generate() keeps and makes around the model, greedy or drawn, with an
// attention mask: token ids, mask and positions that grow by one token per pass, the choice of the
// next token, the test for the end.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/model/sampling.h"
#include "workloads/model/tape.h"

namespace allocmark {

class Generation {
 public:
  // `samples`: tokens are drawn instead of chosen. `keeps_no_mask`: a preallocated cache's masks
  // are made of the caller's, which then goes.
  Generation(Tape* tape, bool samples, bool keeps_no_mask = false)
      : tape_(tape), samples_(samples), keeps_no_mask_(keeps_no_mask), sampling_(tape) {}

  // The caller wants the scores of every step: copies behind a processor that forbids the end.
  void keep_scores(std::vector<Tensor>* scores) { scores_ = scores; }
  // A batch of prompts of `length` tokens.
  void begin(std::uint64_t batch, std::uint64_t length, std::uint64_t image_bytes = 0);
  // Another generation's draft, which has its mask and positions, reads `length` tokens of the
  // text, with positions of their own where it `continues`.
  void begin_draft(const Tensor& mask, const Tensor& positions, std::uint64_t length,
                   bool continues);
  // An encoder reads the prompt: its mask is all that is kept of it beside the ids.
  void begin_encoder(std::uint64_t batch, std::uint64_t length);
  // It has; the decoder begins with one token.
  void begin_decoder();
  // The pass over `context` tokens in all gave logits: takes them and chooses.
  void choose(Var logits, std::uint64_t context);
  // Those of the next pass, where one follows.
  void make_inputs();
  // The batch is done: its results go.
  void end();
  void end_draft();
  [[nodiscard]] const Tensor& tokens() const { return tokens_; }  // this pass's input ids
  [[nodiscard]] const Tensor& ids() const { return ids_; }        // the text so far
  [[nodiscard]] const Tensor& given_ids() const { return given_ids_; }
  // The prompts' images; none after the first pass.
  [[nodiscard]] Tensor images() const { return is_prompt_ ? given_images_ : Tensor(); }

 private:
  [[nodiscard]] Tensor make(std::uint64_t size_bytes) { return tape_->activation(size_bytes); }
  void grow(std::uint64_t context);
  void test_end();
  void add_scores(std::uint64_t count);

  Tape* tape_;
  bool samples_;
  bool keeps_no_mask_;
  Sampling sampling_;
  std::vector<Tensor>* scores_ = nullptr;
  std::uint64_t batch_ = 0;
  Tensor given_ids_, given_images_, given_mask_, ids_, special_[3], mask_, positions_, unfinished_;
  Tensor tokens_, token_positions_, positions_before_, mask_before_, prompt_positions_, exact_,
      chosen_;
  bool is_prompt_ = true;
  bool has_encoder_ = false;
};

}  // namespace allocmark

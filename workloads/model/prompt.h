// What transformers' generate() makes of a batch of prompts before the model first runs: copies of
// the ids and the mask, special tokens, the tests of them, and the tokens' positions. And what it
// makes after every pass: inputs of one more token, and whether answers have ended.
#pragma once

#include <cstdint>
#include <span>

#include "workloads/model/tape.h"

namespace allocmark {

struct PromptSizes {
  std::uint64_t batch = 1;   // prompts
  std::uint64_t length = 1;  // tokens of each
  std::uint64_t image_bytes = 0;
};

// Where the copies are kept; `special` is for the tokens of begin, end and padding.
struct PromptTensors {
  Tensor* ids;
  Tensor* mask;
  Tensor* images;
  std::span<Tensor, 3> special;
};

// `for_encoder`: nobody asks whether a prompt ends in padding.
void take_prompt(Tape* tape, const PromptSizes& sizes, bool for_encoder, PromptTensors kept);

// The special tokens alone, for one prompt whose ids and mask are there.
void take_special_tokens(Tape* tape, std::span<Tensor, 3> special);

// A copy of the generation's settings has copies of these tokens.
void copy_settings(Tape* tape, std::span<Tensor, 3> copies);

// Counted from the mask.
[[nodiscard]] Tensor make_positions(Tape* tape, const PromptSizes& sizes);

// Positions of one more token than `context` of each row; the old ones stay in `before`. Gives the
// mask of as many.
[[nodiscard]] Tensor grow_inputs(Tape* tape, std::uint64_t rows, std::uint64_t context,
                                 Tensor* positions, Tensor* before);

// The stopping criteria, a boolean for each answer: is it as long as it may be, or does it end with
// an end token? Answers begin as not ended; each criterion is joined to that by an or.
[[nodiscard]] Tensor test_answers(Tape* tape, std::uint64_t answer_count);

}  // namespace allocmark

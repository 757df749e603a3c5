// What transformers' generate() keeps and makes around the model with num_beams: scores of all
// words of all beams, the best twice as many continuations as there are beams, running and finished
// sequences, and the cache selected anew for the beams that live on. Follows its _beam_search line
// by line, without sampling, with one word that ends a sequence.
#pragma once

#include <cstdint>

#include "workloads/model/kv_cache.h"
#include "workloads/model/tape.h"

namespace allocmark {

struct BeamSizes {
  std::uint64_t batch = 1;       // prompts
  std::uint64_t beams = 4;       // of each
  std::uint64_t length = 1;      // tokens of each prompt
  std::uint64_t length_max = 2;  // with all that is to be generated
  std::uint64_t vocabulary = 1;
};

class BeamSearch {
 public:
  explicit BeamSearch(Tape* tape) : tape_(tape) {}

  void begin(const BeamSizes& sizes);
  // The pass over `context` tokens in all gave logits: takes them and chooses. The cache is to be
  // reordered next.
  void choose(Var logits, std::uint64_t context);
  // After the cache was reordered: the tests for the end, and the next pass's inputs where one
  // comes.
  void finish_step(bool goes_on);
  // The best sequences are cut to their length and handed out.
  void end();
  [[nodiscard]] const Tensor& tokens() const { return tokens_; }  // this pass's input ids

 private:
  [[nodiscard]] Tensor make(std::uint64_t size_bytes) { return tape_->activation(size_bytes); }
  [[nodiscard]] std::uint64_t rows() const { return sizes_.batch * sizes_.beams; }
  [[nodiscard]] std::uint64_t new_tokens() const { return sizes_.length_max - sizes_.length; }
  // torch.take_along_dim: `count` elements of `width` bytes, by an index as large.
  [[nodiscard]] Tensor gather(std::uint64_t count, std::uint64_t width);
  void continue_best();
  void keep_running();
  void merge_finished();
  void test_improvement();

  Tape* tape_;
  BeamSizes sizes_;
  Tensor given_ids_, given_mask_, special_[3];
  Tensor ids_, mask_, positions_, positions_before_, prompt_positions_, prompt_mask_;
  Tensor tokens_, token_positions_;
  Tensor top_mask_, running_, sequences_, flat_running_, scores_, finished_scores_, finished_;
  Tensor improvable_, hits_, beam_indexes_, finished_indexes_, beam_order_;
  Tensor exact_, shares_;  // logits in four bytes, and the accumulated scores
  Tensor best_scores_, best_sequences_, best_indexes_;
  bool is_prompt_ = true;
};

}  // namespace allocmark

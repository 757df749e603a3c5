#include "workloads/model/beam_search.h"

#include <utility>

#include "workloads/model/functions.h"
#include "workloads/model/prompt.h"

namespace allocmark {

Tensor BeamSearch::gather(std::uint64_t count, std::uint64_t width) {
  const Tensor index = make(count * 8);
  return make(count * width);
}

void BeamSearch::begin(const BeamSizes& sizes) {
  sizes_ = sizes;
  const std::uint64_t all = rows() * sizes.length * 8;
  const PromptSizes prompt{.batch = sizes.batch, .length = sizes.length};
  take_prompt(tape_, prompt, false, {&given_ids_, &given_mask_, nullptr, special_});
  Tensor positions = make_positions(tape_, prompt);
  // Every prompt once for each of its beams.
  ids_ = make(all);
  mask_ = make(all);
  positions_ = make(all);
  positions.reset();
  top_mask_ = make(2 * sizes.beams);
  running_ = make(rows() * sizes.length_max * 8);
  sequences_ = make(rows() * sizes.length_max * 8);
  scores_ = make(rows() * 4);
  finished_scores_ = make(rows() * 4);
  finished_ = make(rows());
  improvable_ = make(sizes.batch);
  hits_ = make(rows());
  beam_indexes_ = make(rows() * new_tokens() * 4);
  finished_indexes_ = make(rows() * new_tokens() * 4);
  tokens_ = make(all);
}

void BeamSearch::choose(Var logits, std::uint64_t context) {
  if (is_prompt_) tokens_.reset();
  Tensor longer = grow_inputs(tape_, rows(), context, &positions_, &positions_before_);
  if (is_prompt_) prompt_mask_ = mask_;
  mask_ = std::move(longer);
  if (is_prompt_) prompt_positions_ = std::move(positions_before_);
  is_prompt_ = false;
  exact_ = make(logits.count * 4);
  shares_ = make(logits.count * 4);
  logits.drop();
  shares_ = make(logits.count * 4);
  continue_best();
  hits_ = test_answers(tape_, 2 * rows());
  keep_running();
  merge_finished();
  beam_order_ = beam_indexes_;
}

// _get_top_k_continuations.
void BeamSearch::continue_best() {
  const std::uint64_t kept = 2 * rows();
  TopK best = top_k(*tape_, {sizes_.batch, sizes_.beams * sizes_.vocabulary, 2 * sizes_.beams});
  Tensor beams = make(kept * 8);
  Tensor indexes = gather(kept * new_tokens(), 4);
  Tensor sequences = gather(kept * sizes_.length_max, 8);
  Tensor words = make(kept * 8);
  Tensor offset = make(sizes_.batch * 8);
  offset = make(sizes_.batch * 8);
  Tensor places = make(kept * 8);
  drop({&best.indexes, &beams, &words, &offset, &places});
  best_scores_ = std::move(best.values);
  best_sequences_ = std::move(sequences);
  best_indexes_ = std::move(indexes);
}

// _get_running_beams_for_next_iteration.
void BeamSearch::keep_running() {
  const std::uint64_t kept = 2 * rows();
  Tensor scores = make(kept * 4);
  scores = make(kept * 4);
  scores = make(kept * 4);
  TopK best = top_k(*tape_, {sizes_.batch, 2 * sizes_.beams, sizes_.beams});
  best.values.reset();
  Tensor running = gather(rows() * sizes_.length_max, 8);
  Tensor running_scores = gather(rows(), 4);
  Tensor indexes = gather(rows() * new_tokens(), 4);
  drop({&best.indexes, &scores});
  running_ = std::move(running);
  scores_ = std::move(running_scores);
  beam_indexes_ = std::move(indexes);
}

// _update_finished_beams.
void BeamSearch::merge_finished() {
  const std::uint64_t kept = 2 * rows();
  const std::uint64_t all = rows() + kept;
  Tensor just_finished = make(kept);
  Tensor scores = make(kept * 4);
  Tensor full = make(sizes_.batch);
  full = make(sizes_.batch);
  {
    Tensor numbers = make(sizes_.batch * 4);
    Tensor product = make(sizes_.batch * 4);
    numbers.reset();
  }
  {
    Tensor flags = make(sizes_.batch);
    const Tensor numbers = make(sizes_.batch * 4);
    flags.reset();
    const Tensor product = make(sizes_.batch * 4);
  }
  {
    Tensor running = make(kept);
    Tensor product = make(kept * 4);
    running.reset();
  }
  Tensor sequences = make(all * sizes_.length_max * 8);
  Tensor merged_scores = make(all * 4);
  Tensor indexes = make(all * new_tokens() * 4);
  Tensor finished = make(all);
  TopK best = top_k(*tape_, {sizes_.batch, 3 * sizes_.beams, sizes_.beams});
  best.values.reset();
  Tensor new_sequences = gather(rows() * sizes_.length_max, 8);
  Tensor new_scores = gather(rows(), 4);
  Tensor new_indexes = gather(rows() * new_tokens(), 4);
  Tensor new_finished = gather(rows(), 1);
  drop({&best.indexes, &just_finished, &full, &sequences, &merged_scores, &indexes, &finished,
        &scores});
  sequences_ = std::move(new_sequences);
  finished_scores_ = std::move(new_scores);
  finished_indexes_ = std::move(new_indexes);
  finished_ = std::move(new_finished);
}

// _check_early_stop_heuristic and _beam_search_has_unfinished_sequences.
void BeamSearch::test_improvement() {
  const std::uint64_t batch = sizes_.batch;
  Tensor running = make(batch * 4);
  Tensor worst = make(batch * 4);
  { const Tensor indexes = make(batch * 8); }
  Tensor none = make(4);
  Tensor finished = make(rows() * 4);
  drop({&none, &worst});
  Tensor better = make(rows());
  Tensor any = make(batch);
  better.reset();
  Tensor improvable = make(batch);
  drop({&any, &running, &finished});
  improvable_ = std::move(improvable);
  Tensor possible = make(1);
  Tensor all = make(1);
  Tensor open = make(1);
  all.reset();
  all = make(1);
  open.reset();
  Tensor hit = make(1);
  Tensor valid = make(1);
  hit.reset();
  Tensor both = make(1);
  Tensor result = make(1);
  drop({&both, &valid, &all, &possible, &result});
}

void BeamSearch::finish_step(bool goes_on) {
  test_improvement();
  if (!goes_on) return;
  flat_running_ = running_;
  Tensor tokens = make(rows() * 8);
  Tensor token_positions = make(rows() * 8);
  tokens_ = std::move(tokens);
  token_positions_ = std::move(token_positions);
  positions_before_.reset();
}

void BeamSearch::end() {
  if (!sequences_) return;
  const std::uint64_t count = sizes_.batch * new_tokens();
  Tensor indexes = make(count * 4);
  Tensor is_token = make(count);
  indexes.reset();
  Tensor lengths = make(sizes_.batch * 8);
  { const Tensor whole = make(count * 8); }
  is_token.reset();
  Tensor longest = make(8);
  lengths.reset();
  const Tensor length = make(8);
  longest.reset();
  *this = BeamSearch(tape_);
}

}  // namespace allocmark

// Generator infer with a draft model: transformers' assisted generation, one prompt at a time. The
// draft guesses token by token and keeps the scores of every guess; the model checks all guesses in
// one pass; caches are cut back to what was right, which frees nothing until they grow again.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/model/functions.h"
#include "workloads/model/generation.h"
#include "workloads/model/kv_cache.h"
#include "workloads/model/prompt.h"
#include "workloads/model/transformer.h"
#include "workloads/programs/infer_options.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

// A model with its cache.
struct Reader {
  Reader(const TransformerSetup& setup, TensorPool* pool)
      : model(setup, LoraSettings(), pool), cache(KvMode::Concat, setup.model.layer_count) {
    model.tape().set_grad_enabled(false);
    model.set_cache(&cache);
    model.set_given_mask(true);
    layer_count = setup.model.layer_count;
  }
  Transformer model;
  KvCache cache;
  std::uint64_t layer_count = 0;
};

// What generate() is given beside the ids.
struct Inputs {
  Tensor positions, mask;
};

class Assisted {
 public:
  using Config = InferConfig;
  Assisted(const InferConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config),
        random_(seed),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        target_(std::make_unique<Reader>(config.setup, pool_.get())),
        draft_(std::make_unique<Reader>(config.draft->setup, pool_.get())),
        draft_ids_(&draft_->model.tape(), false) {
    draft_ids_.keep_scores(&scores_);
  }

  Coroutine run();

 private:
  [[nodiscard]] Tape& tape() { return target_->model.tape(); }
  [[nodiscard]] Tensor make(std::uint64_t size_bytes) { return tape().activation(size_bytes); }
  void begin_request();
  void begin_round();
  void read_with(Reader* reader);
  void begin_draft_pass(std::uint64_t tokens);
  void begin_target_pass();
  void end_pass();
  void end_request();
  void end_draft_pass(Var logits);
  void end_target_pass(Var logits);
  void grow_mask(Inputs* inputs, std::uint64_t more);
  void grow_positions(Inputs* inputs, std::uint64_t more);
  void compare_guesses();
  void crop_cache(std::uint64_t tokens);
  void end_round();

  InferConfig config_;
  Random random_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Reader> target_, draft_;
  Generation draft_ids_;
  std::vector<Tensor> scores_;  // of this round's guesses
  Tensor given_ids_, special_[3], settings_[3], unfinished_, is_finished_;
  // Inputs of the prompt, of the tokens that are certain, of those that the draft knows, of its
  // guesses, and a variable that holds positions until the next round.
  Inputs given_, own_, drafts_, guessed_;
  Tensor known_positions_;
  Tensor ids_, guessed_ids_, compared_ids_, guesses_end_, guess_scores_;
  Inputs pass_;  // of this pass alone
  Tensor pass_ids_, outputs_, exact_, copied_, right_ids_, right_count_, cropped_;
  Var stream_;
  Reader* reader_ = nullptr;
  std::uint64_t served_ = 0;
  std::uint64_t length_ = 0;          // tokens that are certain
  std::uint64_t length_end_ = 0;      // prompt and answer
  std::uint64_t drafted_length_ = 0;  // tokens that the draft was given
  std::uint64_t guess_count_ = 0;
  std::uint64_t guess_ = 0;
  bool is_first_ = true;  // nothing is cached yet
  bool is_round_over_ = false;
};

Coroutine Assisted::run() {
  batch_->mark("begin");
  target_->model.make_parameters();
  draft_->model.make_parameters();
  co_await room_in(batch_);
  for (; served_ < config_.request_count; ++served_) {
    begin_request();
    co_await room_in(batch_);
    while (length_ < length_end_) {
      begin_round();
      while (!is_round_over_) {
        co_await room_in(batch_);
        for (std::uint64_t layer = 0; layer < reader_->layer_count; ++layer) {
          stream_ = reader_->model.layer(layer, stream_);
          co_await room_in(batch_);
        }
        end_pass();
      }
    }
    end_request();
    co_await room_in(batch_);
  }
  batch_->mark("end");
  draft_.reset();
  target_.reset();
}

void Assisted::end_pass() {
  Var hidden = reader_->model.finish(std::move(stream_));
  stream_ = Var();
  Var logits = reader_->model.answer(hidden);
  hidden.drop();
  if (reader_ == draft_.get()) {
    end_draft_pass(std::move(logits));
  } else {
    end_target_pass(std::move(logits));
  }
}

void Assisted::begin_request() {
  batch_->mark("batch", served_);
  const RequestLengths lengths = draw_lengths(config_.lengths, &random_);
  const std::uint64_t given = config_.sequences[served_ % config_.sequences.size()];
  length_ = given > 0 ? given : lengths.context;
  const std::uint64_t answer = config_.answers[served_ % config_.answers.size()];
  length_end_ = length_ + (answer > 0 ? answer : std::max<std::uint64_t>(lengths.generated, 1));
  is_first_ = true;
  const PromptSizes prompt{.batch = 1, .length = length_};
  Tensor images;
  take_prompt(&tape(), prompt, false, {&given_ids_, &own_.mask, &images, special_});
  own_.positions = make_positions(&tape(), prompt);
  copy_settings(&tape(), settings_);
  given_ = drafts_ = own_;
  drafted_length_ = length_;
  ids_ = given_ids_;
  unfinished_ = make(8);
}

// A mask for so many more tokens, and positions: counted on from the last one.
void Assisted::grow_mask(Inputs* inputs, std::uint64_t more) {
  const Tensor ones = make(more * 8);
  inputs->mask = make(inputs->mask.size_bytes() + more * 8);
}

void Assisted::grow_positions(Inputs* inputs, std::uint64_t more) {
  Tensor counted = make(more * 8);
  counted = make(more * 8);
  counted = make(more * 8);
  inputs->positions = make(inputs->positions.size_bytes() + more * 8);
}

// The last token of an answer is never guessed.
void Assisted::begin_round() {
  guess_count_ = std::min(config_.draft->tokens, length_end_ - length_ - 1);
  guess_ = 0;
  is_round_over_ = false;
  if (guess_count_ == 0) {
    guessed_ids_ = ids_;
    guess_scores_.reset();
    begin_target_pass();
    return;
  }
  if (!is_first_) {
    grow_mask(&drafts_, length_ - drafted_length_);
    grow_positions(&drafts_, length_ - drafted_length_);
    drafted_length_ = length_;
  }
  // Of what it has read, the draft forgets all but the tokens before the last two.
  const std::uint64_t tokens = is_first_ ? length_ : 2;
  // Positions of the whole text are its own already.
  draft_ids_.begin_draft(drafts_.mask, drafts_.positions, tokens, tokens < length_);
  begin_draft_pass(tokens);
}

// Both use the same handles: who reads first takes their workspaces.
void Assisted::read_with(Reader* reader) {
  if (reader_ == nullptr) {
    Reader* const other = reader == draft_.get() ? target_.get() : draft_.get();
    other->model.tape().share_workspaces();
  }
  reader_ = reader;
}

void Assisted::begin_draft_pass(std::uint64_t tokens) {
  read_with(draft_.get());
  draft_->model.set_lengths(1, tokens, length_ + guess_);
  draft_->model.set_answer_tokens(1);
  stream_ = draft_->model.embed(draft_ids_.tokens());
}

void Assisted::end_draft_pass(Var logits) {
  draft_ids_.choose(std::move(logits), length_ + guess_);
  if (++guess_ < guess_count_) {
    draft_ids_.make_inputs();
    begin_draft_pass(1);
    return;
  }
  guessed_ids_ = draft_ids_.ids();
  draft_ids_.end_draft();
  Tensor stacked = make(guess_count_ * config_.setup.model.vocabulary * 4);
  while (!scores_.empty()) scores_.pop_back();
  guess_scores_ = std::move(stacked);
  begin_target_pass();
}

void Assisted::begin_target_pass() {
  guesses_end_ = test_answers(&tape(), 1);
  guessed_ = own_;
  const std::uint64_t context = length_ + guess_count_;
  if (guess_count_ > 0) grow_mask(&guessed_, guess_count_);
  known_positions_ = own_.positions;
  if (guess_count_ > 0) grow_positions(&guessed_, guess_count_);
  const std::uint64_t tokens = is_first_ ? context : guess_count_ + 1;
  Inputs inputs = guessed_;
  Tensor ids = make(tokens * 8);
  if (!is_first_) inputs.positions = make(tokens * 8);
  pass_ids_ = std::move(ids);
  pass_ = std::move(inputs);
  read_with(target_.get());
  target_->model.set_lengths(1, tokens, context);
  target_->model.set_answer_tokens(guess_count_ + 1);
  stream_ = target_->model.embed(pass_ids_);
}

// Logits stay with the pass's outputs, and in four bytes twice more, or once where they have four.
void Assisted::end_target_pass(Var logits) {
  outputs_ = logits.tensor;
  if (logits.width < 4) exact_ = make(logits.count * 4);
  copied_ = make(logits.count * 4);
  logits.drop();
  compare_guesses();
  end_round();
  is_first_ = false;
  is_round_over_ = true;
}

// The guesses before the first wrong one are right.
void Assisted::compare_guesses() {
  const std::uint64_t count = guess_count_;
  Tensor chosen = make((count + 1) * 8);
  take_reduction_scratch(tape(), config_.setup.model.vocabulary, 16, count + 1);
  compared_ids_ = guessed_ids_;
  if (count > 0) {
    Tensor equal = make(count);
    Tensor wrong = make(count);
    equal.reset();
    Tensor sums = make(count * 8);
    {
      const Tensor wide = make(count * 8);
      take_running_sum_scratch(tape(), count);
    }
    wrong.reset();
    Tensor are_right = make(count);
    sums.reset();
    Tensor right = make(8);
    { const Tensor wide = make(count * 8); }
    are_right.reset();
    right_count_ = std::move(right);
  } else {
    right_count_ = make(8);
  }
  { const Tensor next = make(8); }
  right_ids_ = std::move(chosen);
}

// The model's own word follows those that are right.
void Assisted::end_round() {
  std::uint64_t right = 0;
  while (right < guess_count_ && random_.below(100) < config_.draft->accept_percent) ++right;
  const std::uint64_t before = std::exchange(length_, std::min(length_ + right + 1, length_end_));
  ids_ = make(length_ * 8);
  crop_cache(guess_count_ - right);
  Tensor old_mask = own_.mask;
  {
    const Tensor count = make(8);
    grow_positions(&own_, length_ - before);
    grow_mask(&own_, length_ - before);
  }
  old_mask.reset();
  Tensor either = test_answers(&tape(), 1);
  Tensor inverse = make(1);
  either.reset();
  Tensor unfinished = make(8);
  inverse.reset();
  unfinished_ = std::move(unfinished);
  const Tensor most = make(8);
  is_finished_ = make(1);
}

// How many tokens go is a tensor, which each layer asks about; a view of the rest stays.
void Assisted::crop_cache(std::uint64_t tokens) {
  cropped_ = make(8);
  const Tensor negative = make(8);
  for (std::uint64_t layer = 0; layer < target_->layer_count; ++layer) {
    { const Tensor is_above = make(1); }
    { const Tensor is_none = make(1); }
    for (int half = 0; half < 2 && tokens > 0; ++half) {
      Tensor absolute = make(8);
      const Tensor end = make(8);
      absolute.reset();
    }
  }
}

void Assisted::end_request() {
  given_ = own_ = drafts_ = guessed_ = pass_ = Inputs();
  known_positions_.reset();
  drop({&settings_[0], &settings_[1], &settings_[2], &unfinished_, &is_finished_, &right_count_,
        &guesses_end_, &pass_ids_, &compared_ids_, &guessed_ids_, &cropped_, &guess_scores_,
        &outputs_, &exact_, &copied_, &right_ids_});
  target_->cache.end_batch();
  draft_->cache.end_batch();
  drop({&special_[0], &special_[1], &special_[2], &ids_, &given_ids_});
}

}  // namespace

std::unique_ptr<EventSource> make_assisted(Parameters& parameters, const GeneratedTraits& traits,
                                           const InferConfig& config) {
  return make_running<Assisted>(parameters, traits, config);
}

}  // namespace allocmark

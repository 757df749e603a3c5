// Generator infer with a draft model: transformers' assisted generation, one prompt at a time. The
// draft guesses token by token and keeps the scores of every guess; the model checks all guesses in
// one pass; caches are cut back to what was right, which frees nothing until they grow again.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/model/generation.h"
#include "workloads/model/kv_cache.h"
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
        target_ids_(&target_->model.tape(), false),
        draft_ids_(&draft_->model.tape(), false) {
    // The draft reads first; both use the same handles.
    target_->model.tape().share_workspaces();
    draft_ids_.keep_scores(&scores_);
  }

  Coroutine run();

 private:
  [[nodiscard]] Tape& tape() { return target_->model.tape(); }
  [[nodiscard]] Tensor make(std::uint64_t size_bytes) { return tape().activation(size_bytes); }
  void begin_request();
  void begin_round();
  void begin_pass(Reader* reader, std::uint64_t tokens, std::uint64_t context);
  void end_pass();
  void end_request();
  void end_draft_pass(Var logits);
  void end_target_pass(Var logits);
  void count_right();

  InferConfig config_;
  Random random_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Reader> target_, draft_;
  Generation target_ids_, draft_ids_;
  std::vector<Tensor> scores_;  // of this round's guesses
  Tensor candidate_scores_, tokens_, ids_, outputs_, exact_, copied_;
  Var stream_;
  Reader* reader_ = nullptr;
  std::uint64_t served_ = 0;
  std::uint64_t length_ = 0;      // tokens that are certain
  std::uint64_t length_end_ = 0;  // prompt and answer
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
  length_end_ = length_ + std::max<std::uint64_t>(lengths.generated, 1);
  is_first_ = true;
  ids_ = make(length_ * 8);
  target_ids_.begin(1, length_);
}

// The last token of an answer is never guessed.
void Assisted::begin_round() {
  guess_count_ = std::min(config_.draft->tokens, length_end_ - length_ - 1);
  guess_ = 0;
  is_round_over_ = false;
  if (guess_count_ == 0) {
    begin_pass(target_.get(), is_first_ ? length_ : 1, length_);
    return;
  }
  draft_ids_.begin(1, length_);
  begin_pass(draft_.get(), is_first_ ? length_ : std::min<std::uint64_t>(2, length_), length_);
}

void Assisted::begin_pass(Reader* reader, std::uint64_t tokens, std::uint64_t context) {
  reader_ = reader;
  reader->model.set_lengths(1, tokens, context);
  reader->model.set_answer_tokens(reader == target_.get() ? guess_count_ + 1 : 1);
  if (reader == target_.get()) tokens_ = make(tokens * 8);
  stream_ = reader->model.embed(reader == target_.get() ? tokens_ : draft_ids_.tokens());
}

void Assisted::end_draft_pass(Var logits) {
  draft_ids_.choose(std::move(logits), length_ + guess_);
  draft_ids_.make_inputs();
  if (++guess_ < guess_count_) {
    begin_pass(draft_.get(), 1, length_ + guess_);
    return;
  }
  draft_ids_.end();
  candidate_scores_ = make(guess_count_ * config_.setup.model.vocabulary * 4);
  scores_.clear();
  begin_pass(target_.get(), is_first_ ? length_ + guess_count_ : guess_count_ + 1,
             length_ + guess_count_);
}

// Logits stay with the pass's outputs; in four bytes they are kept twice.
void Assisted::end_target_pass(Var logits) {
  outputs_ = logits.tensor;
  exact_ = make(logits.count * 4);
  copied_ = make(logits.count * 4);
  logits.drop();
  count_right();
  is_first_ = false;
  is_round_over_ = true;
}

void Assisted::end_request() {
  drop({&candidate_scores_, &tokens_, &ids_, &outputs_, &exact_, &copied_});
  target_ids_.end();
  target_->cache.end_batch();
  draft_->cache.end_batch();
}

// The guesses before the first wrong one are kept, and the model's own word for that one.
void Assisted::count_right() {
  const std::uint64_t rows = guess_count_ + 1;
  const Tensor chosen = make(rows * 8);
  if (guess_count_ > 0) {
    const Tensor wrong = make(guess_count_);
    const Tensor sums = make(guess_count_ * 8);
    { const Tensor scan = make(1279); }
    const Tensor right = make(guess_count_);
    const Tensor count = make(8);
  }
  std::uint64_t right = 0;
  while (right < guess_count_ && random_.below(100) < config_.draft->accept_percent) ++right;
  length_ = std::min(length_ + right + 1, length_end_);
  ids_ = make(length_ * 8);
}

}  // namespace

std::unique_ptr<EventSource> make_assisted(Parameters& parameters, const GeneratedTraits& traits,
                                           const InferConfig& config) {
  return make_running<Assisted>(parameters, traits, config);
}

}  // namespace allocmark

// Generator infer: batches of requests of different lengths, padded to the longest, through a
// transformer without gradients; models that generate go on token by token with a KV cache that
// grows.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/random.h"
#include "workloads/model/beam_search.h"
#include "workloads/model/functions.h"
#include "workloads/model/generation.h"
#include "workloads/model/kv_cache.h"
#include "workloads/model/lengths.h"
#include "workloads/model/transformer.h"
#include "workloads/programs/infer_options.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

class Inference {
 public:
  using Config = InferConfig;
  Inference(const InferConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config),
        random_(seed),
        batch_(batch),
        pool_(std::make_unique<TensorPool>(batch)),
        model_(std::make_unique<Transformer>(config.setup, LoraSettings{.bits = config.bits},
                                             pool_.get())),
        cache_(config.kv_mode, config.setup.model.block_count()),
        generation_(&model_->tape(), config.samples, config.kv_mode == KvMode::Preallocated),
        beam_search_(&model_->tape()) {
    tape().set_grad_enabled(false);
    model_->set_routing_seed(seed);
    model_->set_given_mask(generates() || config_.padded);
    if (!generates()) return;
    model_->set_cache(&cache_);
  }

  Coroutine run();

 private:
  [[nodiscard]] bool has_encoder() const { return config_.setup.model.family == ModelFamily::T5; }
  [[nodiscard]] bool generates() const { return config_.setup.model.generates(); }
  void start();
  void begin_batch();
  void embed();
  void begin_decoder();
  void return_states();
  void choose();
  void decode();
  [[nodiscard]] bool next_token();
  void set_lengths();
  [[nodiscard]] Tape& tape() { return model_->tape(); }
  // Bytes of one half of one layer's cache for so many tokens.
  [[nodiscard]] std::uint64_t cache_bytes(std::uint64_t token_count) const {
    return token_count * config_.setup.model.kv_width() * config_.setup.wide_bytes;
  }

  InferConfig config_;
  Random random_;
  EventBatch* batch_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Transformer> model_;
  KvCache cache_;
  Generation generation_;
  BeamSearch beam_search_;
  Tensor tokens_, given_mask_;
  Var stream_, hidden_, answer_;
  std::uint64_t served_ = 0;
  std::uint64_t batch_index_ = 0;
  std::uint64_t batch_size_ = 0;
  std::uint64_t length_ = 0;       // tokens of each sequence in this pass
  std::uint64_t context_ = 0;      // tokens that the cache holds after this pass
  std::uint64_t context_end_ = 0;  // when it reaches this the batch is done
  std::uint64_t cache_end_ = 0;    // tokens that a preallocated cache has room for
};

Coroutine Inference::run() {
  const std::uint64_t layer_count = config_.setup.model.layer_count;
  start();
  co_await room_in(batch_);
  while (served_ < config_.request_count) {
    begin_batch();
    co_await room_in(batch_);
    bool encodes = has_encoder();
    for (bool goes_on = true; goes_on;) {
      const bool decodes = has_encoder() && !encodes;
      decodes ? decode() : embed();
      co_await room_in(batch_);
      for (std::uint64_t layer = 0; layer < layer_count; ++layer) {
        stream_ = model_->layer(decodes ? layer_count + layer : layer, stream_);
        co_await room_in(batch_);
      }
      if (encodes) {
        begin_decoder();
        encodes = false;
      } else if (!generates()) {
        return_states();
        goes_on = false;
      } else {
        choose();
        for (std::uint64_t layer = 0; config_.beams > 1 && layer < layer_count; ++layer) {
          co_await room_in(batch_);
          cache_.reorder(tape(), layer);
        }
        goes_on = next_token();
      }
      co_await room_in(batch_);
    }
  }
  drop({&hidden_, &answer_});
  drop({&tokens_, &given_mask_});
  batch_->mark("end");
  cache_.clear();
  model_.reset();
}

void Inference::start() {
  batch_->mark("begin");
  model_->make_parameters();
  if (generates() && config_.kv_mode == KvMode::Paged) {
    cache_.reserve(tape(), cache_bytes(config_.batch_max * (config_.lengths.context_max +
                                                            config_.lengths.generated_max)));
  }
}

void Inference::begin_batch() {
  batch_->mark("batch", batch_index_);
  const std::uint64_t given_batch = config_.batches[batch_index_ % config_.batches.size()];
  const std::uint64_t given_length = config_.sequences[batch_index_ % config_.sequences.size()];
  std::uint64_t wanted =
      config_.full_batches ? config_.batch_max : random_.between(1, config_.batch_max);
  if (given_batch > 0) wanted = given_batch;
  batch_size_ = std::min(wanted, config_.request_count - served_);
  served_ += batch_size_;
  std::uint64_t generated = 0;
  context_ = 0;
  for (std::uint64_t i = 0; i < batch_size_; ++i) {
    const RequestLengths lengths = draw_lengths(config_.lengths, &random_);
    context_ = std::max(context_, lengths.context);
    generated = std::max(generated, lengths.generated);
  }
  if (given_length > 0) context_ = given_length;
  const std::uint64_t answer = config_.answers[batch_index_ % config_.answers.size()];
  if (answer > 0) generated = answer - 1;
  ++batch_index_;
  // Prompts of one token cannot differ in length.
  model_->set_padded(config_.padded && batch_size_ > 1 && context_ > 1);
  context_end_ = generates() ? context_ + generated : context_;
  length_ = context_;
  // transformers never makes a shorter one than the last.
  cache_end_ = std::max(cache_end_, context_end_);
  set_lengths();
  if (generates() && config_.kv_mode == KvMode::Preallocated)
    cache_.reserve(tape(), cache_bytes(batch_size_ * config_.beams * cache_end_));
  if (has_encoder()) {
    context_end_ -= context_;
    context_ = 0;
    generation_.begin_encoder(batch_size_, length_);
  } else if (config_.beams > 1) {
    beam_search_.begin({.batch = batch_size_,
                        .beams = config_.beams,
                        .length = context_,
                        .length_max = context_end_ + 1,
                        .vocabulary = config_.setup.model.vocabulary});
  } else if (generates()) {
    generation_.begin(batch_size_, context_,
                      config_.setup.sees_images() ? model_->image_bytes() : 0);
  }
}

void Inference::embed() {
  if (has_encoder()) {
    stream_ = model_->embed(generation_.given_ids());
    // The encoder looks at its mask.
    Tensor allowed = tape().activation(batch_size_ * length_);
    { const Tensor all = tape().activation(1); }
  } else if (generates()) {
    if (config_.setup.sees_images()) model_->set_conditions({.images = generation_.images()});
    stream_ = model_->embed(config_.beams > 1 ? beam_search_.tokens() : generation_.tokens());
  } else {
    // What the last call returned goes first.
    drop({&hidden_, &answer_});
    tokens_ = tape().activation(model_->input_sizes().input_bytes);
    if (config_.padded) {
      given_mask_ = tape().activation(model_->input_sizes().input_bytes);
    }
    stream_ = model_->embed(tokens_);
  }
}

// The decoder's next token, after those that are cached.
void Inference::decode() {
  stream_ = model_->embed_target(generation_.tokens(), 1, context_);
  ++context_;
}

void Inference::begin_decoder() {
  model_->end_encoder(std::move(stream_));
  stream_ = Var();
  generation_.begin_decoder();
}

// The pooled first token, classes or words: only they are kept, and not until the next batch.
void Inference::return_states() {
  Var hidden = model_->finish(std::move(stream_));
  stream_ = Var();
  Var answer = model_->answer(hidden);
  if (config_.pools) {
    answer.drop();
    Var embeddings = mean_pooling(
        tape(), std::move(hidden),
        {.batch = batch_size_, .length = length_, .hidden = config_.setup.model.hidden});
    embeddings.drop();
    drop({&tokens_, &given_mask_});
    return;
  }
  if (config_.setup.model.image > 0) {
    hidden.drop();
    tokens_.reset();
    answer.drop();
  } else if (config_.setup.predicts_words) {
    drop({&hidden, &answer});
    drop({&tokens_, &given_mask_});
  }
  tokens_.reset();
  hidden_ = std::move(hidden);
  answer_ = std::move(answer);
}

// The last token's logits and the choice of the next token.
void Inference::choose() {
  Var hidden = model_->finish(std::move(stream_));
  stream_ = Var();
  Var answer = model_->answer(hidden);
  hidden.drop();
  if (config_.beams > 1) {
    beam_search_.choose(std::move(answer), context_);
  } else {
    generation_.choose(std::move(answer), context_);
  }
}

// Attention reads a preallocated cache to its end, whatever it holds.
void Inference::set_lengths() {
  const bool whole = config_.kv_mode == KvMode::Preallocated && generates();
  model_->set_lengths(batch_size_ * config_.beams, length_, whole ? cache_end_ : context_);
  model_->set_mask_length(whole ? context_ : 0);
}

// False where the batch is done.
bool Inference::next_token() {
  if (config_.beams > 1) beam_search_.finish_step(context_ < context_end_);
  if (has_encoder() && context_ <= context_end_) {
    generation_.make_inputs();
    return true;
  }
  if (!has_encoder() && context_ < context_end_) {
    if (config_.beams == 1) generation_.make_inputs();
    ++context_;
    length_ = 1;
    set_lengths();
    return true;
  }
  generation_.end();
  beam_search_.end();
  cache_.end_batch();
  if (has_encoder()) model_->forget_encoder();
  return false;
}

std::unique_ptr<EventSource> make_infer(Parameters& parameters, std::uint64_t seed) {
  const InferConfig config = read_infer_config(parameters);
  const GeneratedTraits traits{.name = "infer-" + parameters.variant(), .seed = seed};
  if (config.draft) return make_assisted(parameters, traits, config);
  return make_running<Inference>(parameters, traits, config);
}

}  // namespace

extern constinit const GeneratorEntry kInferGenerator{
    "infer", "infer:llama-3-8b,requests=64,batch=8,lengths=conv,kv=concat",
    "variable-length inference: padded prompts, then token by token with a growing KV cache",
    make_infer};

}  // namespace allocmark

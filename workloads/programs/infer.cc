// Generator infer: batches of requests of different lengths, padded to the longest, through a
// transformer without gradients; models that generate go on token by token with a KV cache that
// grows.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "workloads/model/beam_search.h"
#include "workloads/model/generation.h"
#include "workloads/model/kv_cache.h"
#include "workloads/model/lengths.h"
#include "workloads/model/mean_pooling.h"
#include "workloads/model/transformer.h"
#include "workloads/programs/assisted.h"
#include "workloads/programs/infer_options.h"
#include "workloads/trace/generated_source.h"
#include "workloads/trace/generator_entry.h"

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
        generation_(&model_->tape(), config.samples),
        beam_search_(&model_->tape()) {
    tape().set_grad_enabled(false);
    model_->set_routing_seed(seed);
    model_->set_given_mask(generates() || config_.padded);
    if (!generates()) return;
    model_->set_cache(&cache_);
  }

  // One block of one pass per call, or what lies between passes.
  bool advance();

 private:
  enum class Phase { Start, Batch, Embed, Layer, Head, Decode, Reorder, Done };

  [[nodiscard]] bool has_encoder() const { return config_.setup.model.family == ModelFamily::T5; }
  [[nodiscard]] bool generates() const { return config_.setup.model.generates(); }
  void start();
  void begin_batch();
  void embed();
  void head();
  void decode();
  void reorder();
  void next_token();
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
  Phase phase_ = Phase::Start;
  std::uint64_t served_ = 0;
  std::uint64_t batch_index_ = 0;
  std::uint64_t batch_size_ = 0;
  std::uint64_t length_ = 0;       // tokens of each sequence in this pass
  std::uint64_t context_ = 0;      // tokens that the cache holds after this pass
  std::uint64_t context_end_ = 0;  // when it reaches this the batch is done
  std::uint64_t layer_ = 0;
};

bool Inference::advance() {
  switch (phase_) {
    case Phase::Start:
      start();
      return true;
    case Phase::Batch:
      begin_batch();
      return true;
    case Phase::Embed:
      embed();
      return true;
    case Phase::Layer:
      stream_ = model_->layer(layer_, stream_);
      if (++layer_ % config_.setup.model.layer_count == 0) phase_ = Phase::Head;
      return true;
    case Phase::Head:
      head();
      return true;
    case Phase::Decode:
      decode();
      return true;
    case Phase::Reorder:
      reorder();
      return true;
    case Phase::Done:
      drop({&hidden_, &answer_});
      tokens_.reset();
      given_mask_.reset();
      batch_->mark("end");
      cache_.clear();
      model_.reset();
      return false;
  }
  return false;
}

void Inference::start() {
  batch_->mark("begin");
  model_->make_parameters();
  if (generates() && config_.kv_mode == KvMode::Paged) {
    cache_.reserve(tape(), cache_bytes(config_.batch_max * (config_.lengths.context_max +
                                                            config_.lengths.generated_max)));
  }
  phase_ = Phase::Batch;
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
  model_->set_padded(config_.padded && batch_size_ > 1);
  context_end_ = generates() ? context_ + generated : context_;
  length_ = context_;
  set_lengths();
  if (generates() && config_.kv_mode == KvMode::Preallocated)
    cache_.reserve(tape(), cache_bytes(batch_size_ * config_.beams * context_end_));
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
  phase_ = Phase::Embed;
}

void Inference::embed() {
  if (has_encoder()) {
    stream_ = model_->embed(generation_.given_ids());
    // The encoder looks at its mask.
    Tensor allowed = tape().allocate(batch_size_ * length_, TensorKind::Activation);
    { const Tensor all = tape().allocate(1, TensorKind::Activation); }
  } else if (generates()) {
    if (config_.setup.sees_images()) model_->set_conditions({.images = generation_.images()});
    stream_ = model_->embed(config_.beams > 1 ? beam_search_.tokens() : generation_.tokens());
  } else {
    // What the last call returned goes first.
    drop({&hidden_, &answer_});
    tokens_ = tape().allocate(model_->input_sizes().input_bytes, TensorKind::Activation);
    if (config_.padded) {
      given_mask_ = tape().allocate(model_->input_sizes().input_bytes, TensorKind::Activation);
    }
    stream_ = model_->embed(tokens_);
  }
  layer_ = 0;
  phase_ = Phase::Layer;
}

// The decoder's next token, after those that are cached.
void Inference::decode() {
  stream_ = model_->embed_target(generation_.tokens(), 1, context_);
  ++context_;
  layer_ = config_.setup.model.layer_count;
  phase_ = Phase::Layer;
}

// The last token's logits and the choice of the next token, or the pooled first token.
void Inference::head() {
  if (has_encoder() && layer_ == config_.setup.model.layer_count) {
    model_->end_encoder(std::move(stream_));
    stream_ = Var();
    generation_.begin_decoder();
    phase_ = Phase::Decode;
    return;
  }
  Var hidden = model_->finish(std::move(stream_));
  stream_ = Var();
  Var answer = model_->answer(hidden);
  if (config_.pools) {
    answer.drop();
    Var embeddings = mean_pooling(
        tape(), std::move(hidden),
        {.batch = batch_size_, .length = length_, .hidden = config_.setup.model.hidden});
    embeddings.drop();
    tokens_.reset();
    given_mask_.reset();
    phase_ = served_ < config_.request_count ? Phase::Batch : Phase::Done;
    return;
  }
  if (!generates()) {
    // Only classes or scores are kept, and not until the next batch.
    if (config_.setup.model.image > 0) {
      hidden.drop();
      tokens_.reset();
      answer.drop();
    } else if (config_.setup.predicts_words) {
      drop({&hidden, &answer});
      tokens_.reset();
      given_mask_.reset();
    }
    tokens_.reset();
    hidden_ = std::move(hidden);
    answer_ = std::move(answer);
    phase_ = served_ < config_.request_count ? Phase::Batch : Phase::Done;
    return;
  }
  hidden.drop();
  if (config_.beams > 1) {
    beam_search_.choose(std::move(answer), context_);
    layer_ = 0;
    phase_ = Phase::Reorder;
    return;
  }
  generation_.choose(std::move(answer), context_);
  next_token();
}

// One layer's cache per call.
void Inference::reorder() {
  cache_.reorder(tape(), layer_);
  if (++layer_ < config_.setup.model.layer_count) return;
  beam_search_.finish_step(context_ < context_end_);
  next_token();
}

// Attention reads a preallocated cache to its end, whatever it holds.
void Inference::set_lengths() {
  const bool whole = config_.kv_mode == KvMode::Preallocated && generates();
  model_->set_lengths(batch_size_ * config_.beams, length_, whole ? context_end_ : context_);
  model_->set_mask_length(whole ? context_ : 0);
}

void Inference::next_token() {
  if (has_encoder() && context_ <= context_end_) {
    generation_.make_inputs();
    phase_ = Phase::Decode;
    return;
  }
  if (!has_encoder() && context_ < context_end_) {
    if (config_.beams == 1) generation_.make_inputs();
    ++context_;
    length_ = 1;
    set_lengths();
    phase_ = Phase::Embed;
    return;
  }
  generation_.end();
  beam_search_.end();
  cache_.end_batch();
  if (has_encoder()) model_->forget_encoder();
  phase_ = served_ < config_.request_count ? Phase::Batch : Phase::Done;
}

std::unique_ptr<EventSource> make_infer(Parameters& parameters, std::uint64_t seed) {
  const InferConfig config = read_infer_config(parameters);
  AssistedConfig assisted;
  const std::optional<TransformerSetup> draft =
      config.setup.model.generates() ? read_draft(parameters, config) : std::nullopt;
  if (draft) {
    assisted = {.target = config.setup,
                .draft = *draft,
                .lengths = config.lengths,
                .sequences = config.sequences,
                .request_count = config.request_count};
    assisted.draft_tokens = parameters.number("draft_tokens", 5, {1, 64});
    assisted.accept_percent = parameters.number("accept_percent", 70, {0, 100});
  }
  const GeneratedTraits traits{.name = "infer-" + parameters.variant(), .seed = seed};
  if (draft) return make_assisted(parameters, traits, assisted);
  return make_generated<Inference>(parameters, traits, config);
}

}  // namespace

extern const GeneratorEntry kInferGenerator;
constinit const GeneratorEntry kInferGenerator{
    "infer", "infer:llama-3-8b,requests=64,batch=8,lengths=conv,kv=concat",
    "variable-length inference: padded prompts, then token by token with a growing KV cache",
    make_infer};

}  // namespace allocmark

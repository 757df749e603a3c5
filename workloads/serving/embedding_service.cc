// The encoder's side of generator serve: texts arrive, are put together first come, first served
// into batches of a limited number of tokens, padded to the longest, and answered with the mean of
// their hidden states, normalized, as sentence-transformers computes it.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/model/functions.h"
#include "workloads/model/transformer.h"
#include "workloads/serving/serve_options.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct EmbeddingConfig {
  TransformerSetup setup;
  ArrivalSettings arrivals;
  LengthSettings lengths;
  std::uint64_t request_count = 256;
  std::uint64_t batch_max = 32;
  std::uint64_t token_budget = 16'384;  // of a batch, padding included
};

class EmbeddingService {
 public:
  using Config = EmbeddingConfig;
  EmbeddingService(const EmbeddingConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config),
        batch_(batch),
        arrivals_(config.arrivals, seed),
        lengths_(seed ^ kLengthSeed),
        pool_(std::make_unique<TensorPool>(batch)),
        model_(std::make_unique<Transformer>(config.setup, LoraSettings(), pool_.get())) {
    tape().set_grad_enabled(false);
    model_->set_given_mask(true);
    draw_next();
  }

  Coroutine run();

 private:
  struct Text {
    std::uint64_t arrival_ns = 0;
    std::uint64_t length = 0;
  };

  [[nodiscard]] Tape& tape() { return model_->tape(); }
  void draw_next() {
    next_ = {.arrival_ns = arrivals_.next_ns(),
             .length = draw_lengths(config_.lengths, &lengths_).context};
  }
  void begin_batch();
  void finish_batch();
  // The service's clock goes on by what the part's kernels take.
  void time(const std::function<void()>& part);

  EmbeddingConfig config_;
  EventBatch* batch_;
  Arrivals arrivals_;
  Random lengths_;
  std::unique_ptr<TensorPool> pool_;
  std::unique_ptr<Transformer> model_;
  Text next_;
  std::vector<std::uint64_t> batch_arrivals_ns_;
  Tensor tokens_, mask_;
  Var stream_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t served_ = 0;
  std::uint64_t batch_index_ = 0;
  std::uint64_t length_ = 0;  // tokens of each text, padded
};

Coroutine EmbeddingService::run() {
  batch_->mark("begin");
  model_->make_parameters();
  batch_->sync();
  batch_->mark(MarkClass::ServerStart, 0);
  while (served_ < config_.request_count) {
    time([this] { begin_batch(); });
    co_await room_in(batch_);
    for (std::uint64_t layer = 0; layer < config_.setup.model.layer_count; ++layer) {
      time([&] { stream_ = model_->layer(layer, stream_); });
      co_await room_in(batch_);
    }
    time([this] { finish_batch(); });
    co_await room_in(batch_);
  }
  batch_->mark("end");
  model_.reset();
}

void EmbeddingService::time(const std::function<void()>& part) {
  const std::size_t begin = batch_->events().size();
  part();
  for (const Event& event : std::span(batch_->events()).subspan(begin)) {
    if (event.kind == EventKind::Kernel) now_ns_ += event.duration_ns();
  }
}

void EmbeddingService::begin_batch() {
  if (next_.arrival_ns > now_ns_) {
    now_ns_ = next_.arrival_ns;
    batch_->mark(MarkClass::IdleUntil, now_ns_);
  }
  batch_->mark("batch", batch_index_++);
  batch_arrivals_ns_.clear();
  length_ = 0;
  while (next_.arrival_ns <= now_ns_ && batch_arrivals_ns_.size() < config_.batch_max &&
         served_ + batch_arrivals_ns_.size() < config_.request_count) {
    const std::uint64_t longest = std::max(length_, next_.length);
    if (longest * (batch_arrivals_ns_.size() + 1) > config_.token_budget) break;
    length_ = longest;
    batch_arrivals_ns_.push_back(next_.arrival_ns);
    draw_next();
  }
  const std::uint64_t count = batch_arrivals_ns_.size();
  served_ += count;
  tokens_ = tape().activation(count * length_ * 8);
  mask_ = tape().activation(count * length_ * 8);
  model_->set_padded(config_.setup.fused_attention && count > 1);
  model_->set_lengths(count, length_, length_);
  stream_ = model_->embed(tokens_);
}

void EmbeddingService::finish_batch() {
  const std::uint64_t count = batch_arrivals_ns_.size();
  const std::uint64_t hidden = config_.setup.model.hidden;
  Var states = model_->finish(std::move(stream_));
  stream_ = Var();
  {
    // The pooled first token is made too, and nobody asks for it.
    Var pooled = model_->answer(states);
  }
  Var unit = mean_pooling(tape(), std::move(states),
                          {.batch = count, .length = length_, .hidden = hidden});
  batch_->sync();
  for (const std::uint64_t arrival_ns : batch_arrivals_ns_) {
    batch_->mark(MarkClass::RequestDone, arrival_ns);
  }
  unit.drop();
  tokens_.reset();
  mask_.reset();
}

}  // namespace

std::unique_ptr<EventSource> make_embedding_service(Parameters& parameters, const ModelShape& model,
                                                    std::uint64_t seed) {
  EmbeddingConfig config;
  TransformerSetup& setup = config.setup;
  setup.model = model;
  setup.training = false;
  setup.autocast = false;
  setup.kernels = true;
  setup.products_only = true;
  setup.card = read_serving_card(parameters);
  setup.wide_bytes = setup.narrow_bytes =
      parameters.choice("precision", {"bf16", "fp32"}) == 1 ? 4 : 2;
  setup.fused_attention = parameters.choice("attention", {"fused", "eager"}) == 0;
  config.request_count = parameters.number("requests", 256, {1, 1'000'000'000});
  config.arrivals = read_arrivals(parameters);
  config.lengths = read_lengths(
      parameters,
      {.longest = model.positions, .context_preset = model.positions, .generates = false});
  config.batch_max = parameters.number("batch", 32, {1, 4096});
  config.token_budget = parameters.number("batch_tokens", 16'384, {1, 1 << 20});
  parameters.refuse_if(config.token_budget < config.lengths.context_max, "batch_tokens",
                       "at least context_max = " + std::to_string(config.lengths.context_max),
                       config.token_budget);
  return make_running<EmbeddingService>(
      parameters, {.name = "serve-" + parameters.variant(), .seed = seed}, config);
}

}  // namespace allocmark

// Generator serve: a server that answers requests as they arrive. Decoders run under continuous
// batching (serving/scheduler.h) on an engine without padding (serving/engine.h), plain, with beam
// search or with a draft model that guesses ahead; encoders run as an embedding service
// (serving/embedding_service.cc). With graphs a decode step is captured for each batch at the
// start. Marks tell when requests arrive and are answered.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "workloads/model/lengths.h"
#include "workloads/programs/model_options.h"
#include "workloads/serving/arrivals.h"
#include "workloads/serving/decode_graphs.h"
#include "workloads/serving/engine.h"
#include "workloads/serving/scheduler.h"
#include "workloads/serving/serve_options.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

// A third stream of random numbers, beside arrivals and lengths.
constexpr std::uint64_t kGuessSeed = 0x67756573;

class Server {
 public:
  using Config = ServeConfig;
  Server(const ServeConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config),
        batch_(batch),
        arrivals_(config.arrivals, seed),
        lengths_(seed ^ kLengthSeed),
        guesses_(seed ^ kGuessSeed),
        pool_(std::make_unique<TensorPool>(batch)),
        target_(pool_.get(), config.target),
        scheduler_(config.limits),
        graph_batches_(graph_batches(config.graphs)) {
    if (config.draft) draft_.emplace(pool_.get(), *config.draft);
    next_arrival_ns_ = arrivals_.next_ns();
  }

  Coroutine run();

 private:
  // A forward pass of an iteration: of the draft model or the target's.
  struct Pass {
    bool is_draft = false;
    std::uint64_t logit_rows = 0;  // 0: for the cache only
    std::vector<PassPart> parts;
  };

  void start();
  void capture_graph();
  void release_graphs();
  // The smallest graph that holds the pass, which is of decode steps only; its place in
  // graph_batches_.
  [[nodiscard]] std::optional<std::size_t> graph_of(const Pass& pass) const;
  void begin_iteration();
  void plan_passes();
  // False where a graph ran it whole.
  [[nodiscard]] bool begin_pass(const Pass& pass);
  void end_pass(const Pass& pass);
  void commit();
  void sample(std::uint64_t rows);
  void choose_beams(std::uint64_t rows);
  [[nodiscard]] std::optional<ServeRequest> arrived_request();
  [[nodiscard]] std::vector<Engine*> engines() {
    return draft_ ? std::vector<Engine*>{&target_, &*draft_} : std::vector<Engine*>{&target_};
  }
  [[nodiscard]] Engine& engine(const Pass& pass) { return pass.is_draft ? *draft_ : target_; }

  ServeConfig config_;
  EventBatch* batch_;
  Arrivals arrivals_;
  Random lengths_, guesses_;
  std::unique_ptr<TensorPool> pool_;
  Engine target_;
  std::optional<Engine> draft_;
  Scheduler scheduler_;
  std::vector<std::uint64_t> graph_batches_;
  std::size_t captured_ = 0;  // of graph_batches_
  std::vector<Pass> passes_;
  std::vector<PassPart> beam_parts_;  // whose caches follow their beams
  std::vector<Tensor> draft_shares_;  // what the draft model said, until the target has checked it
  Tensor logits_, inputs_;
  std::uint64_t now_ns_ = 0;
  std::uint64_t next_arrival_ns_ = 0;
  std::uint64_t arrived_count_ = 0;  // handed to the scheduler
  std::uint64_t done_count_ = 0;
  std::uint64_t iteration_ = 0;
};

Coroutine Server::run() {
  start();
  co_await room_in(batch_);
  if (!graph_batches_.empty()) batch_->mark("capture");
  for (; captured_ < graph_batches_.size(); ++captured_) {
    capture_graph();
    co_await room_in(batch_);
  }
  batch_->sync();
  batch_->mark(MarkClass::ServerStart, 0);
  while (done_count_ < config_.request_count) {
    co_await room_in(batch_);
    begin_iteration();
    for (const Pass& pass : passes_) {
      const bool has_layers = begin_pass(pass);
      co_await room_in(batch_);
      for (std::uint64_t i = 0; has_layers && i < engine(pass).layer_count(); ++i) {
        engine(pass).layer(i, pass.parts);
        co_await room_in(batch_);
      }
      end_pass(pass);
    }
    for (std::uint64_t i = 0; !beam_parts_.empty() && i < target_.layer_count(); ++i) {
      for (const PassPart& part : beam_parts_) target_.reorder(i, part);
      co_await room_in(batch_);
    }
    commit();
  }
  batch_->mark("end");
  release_graphs();
  inputs_.reset();
  if (draft_) draft_->clear();
  target_.clear();
}

void Server::start() {
  batch_->mark("begin");
  for (Engine* engine : engines()) {
    engine->make_weights();
    if (config_.target.kv_mode == KvMode::Paged) {
      engine->make_pool(config_.limits.block_count, config_.limits.block_tokens);
    }
  }
  // Token ids, positions and places in the cache of every token that a pass can have.
  inputs_ = target_.make(config_.limits.token_budget * 24);
}

// A run without a graph loads kernels and makes workspaces; torch.cuda.graph() then waits, empties
// the cache and captures the same run, whose tensors come from the graph's pool.
void Server::capture_graph() {
  const std::uint64_t pool = graph_pool_id(config_.graphs, captured_);
  const PassPart part{.tokens = graph_batches_[captured_], .context = graph_batches_[captured_]};
  const std::span<const PassPart> parts(&part, 1);
  for (const bool captures : {false, true}) {
    if (captures) {
      batch_->sync();
      batch_->trim();
      batch_->pool({.id = pool, .kind = EventKind::PoolBegin});
      batch_->pool({.id = pool, .kind = EventKind::CaptureBegin});
    }
    target_.begin(parts);
    for (std::uint64_t i = 0; i < target_.layer_count(); ++i) target_.layer(i, parts);
    target_.finish_graph();
    if (!captures) continue;
    batch_->pool({.id = pool, .kind = EventKind::CaptureEnd});
    batch_->pool({.id = pool, .kind = EventKind::PoolEnd});
  }
  (void)target_.take_duration_ns();  // the server's clock does not run yet
}

void Server::release_graphs() {
  for (std::size_t i = 0; i < captured_; ++i) {
    batch_->pool({.id = graph_pool_id(config_.graphs, i), .kind = EventKind::PoolRelease});
  }
}

std::optional<std::size_t> Server::graph_of(const Pass& pass) const {
  const auto decodes = [](const PassPart& part) { return part.tokens == 1 && part.context > 1; };
  if (!std::ranges::all_of(pass.parts, decodes)) return std::nullopt;
  std::optional<std::size_t> smallest;
  for (std::size_t i = 0; i < graph_batches_.size(); ++i) {
    if (graph_batches_[i] < pass.parts.size()) continue;
    if (!smallest || graph_batches_[i] < graph_batches_[*smallest]) smallest = i;
  }
  return smallest;
}

std::optional<ServeRequest> Server::arrived_request() {
  if (arrived_count_ == config_.request_count || next_arrival_ns_ > now_ns_) return std::nullopt;
  const RequestLengths drawn = draw_lengths(config_.lengths, &lengths_);
  const ServeRequest request{.arrival_ns = next_arrival_ns_,
                             .prompt = drawn.context,
                             .answer = std::max<std::uint64_t>(drawn.generated, 1)};
  ++arrived_count_;
  next_arrival_ns_ = arrivals_.next_ns();
  return request;
}

void Server::begin_iteration() {
  if (scheduler_.is_idle() && next_arrival_ns_ > now_ns_) {
    now_ns_ = next_arrival_ns_;
    batch_->mark(MarkClass::IdleUntil, now_ns_);
  }
  batch_->mark("step", iteration_++);
  const std::uint64_t admitted_before = scheduler_.running().size();
  for (const std::uint32_t slot : scheduler_.plan([this] { return arrived_request(); })) {
    for (Engine* engine : engines()) engine->release(slot);
  }
  if (config_.target.kv_mode == KvMode::Preallocated) {
    for (const ServeRequest& request : scheduler_.running().subspan(
             std::min<std::size_t>(admitted_before, scheduler_.running().size()))) {
      for (Engine* engine : engines())
        engine->reserve(request.slot, config_.limits.reserved_tokens);
    }
  }
  plan_passes();
}

// Without a draft model one pass; with it the draft model reads what the target reads, then guesses
// token by token, and the target checks all guesses in one pass.
void Server::plan_passes() {
  passes_.clear();
  beam_parts_.clear();
  const std::uint64_t guess_count = config_.limits.draft_tokens;
  Pass target{.parts = {}};
  std::vector<Pass> guesses(guess_count, Pass{.is_draft = true, .parts = {}});
  for (const ServeRequest& request : scheduler_.running()) {
    if (request.scheduled == 0) continue;
    const bool decodes = request.decodes();
    PassPart part{.slot = request.slot,
                  .tokens = request.scheduled,
                  .width = decodes ? config_.limits.beams : 1,
                  .context = request.cached + request.scheduled};
    target.parts.push_back(part);
    const bool gives_token = decodes || request.pending() == request.scheduled;
    if (gives_token) target.logit_rows += decodes ? part.tokens * part.width : 1;
    if (gives_token && config_.limits.beams > 1) {
      part.width = config_.limits.beams;
      beam_parts_.push_back(part);
    }
    for (std::uint64_t i = 0; i < guess_count; ++i) {
      if (!decodes && i > 0) break;
      PassPart guess = part;
      guess.width = 1;
      if (decodes) {
        guess.tokens = 1;
        guess.context = request.cached + 1 + i;
        ++guesses[i].logit_rows;
      }
      guesses[i].parts.push_back(guess);
    }
  }
  for (Pass& guess : guesses) {
    if (!guess.parts.empty()) passes_.push_back(std::move(guess));
  }
  passes_.push_back(std::move(target));
}

bool Server::begin_pass(const Pass& pass) {
  if (const std::optional<std::size_t> graph = graph_of(pass)) {
    const std::uint64_t pool = graph_pool_id(config_.graphs, *graph);
    batch_->pool({.id = pool, .kind = EventKind::GraphReplay});
    target_.replay(graph_batches_[*graph], pass.parts);
    return false;
  }
  engine(pass).begin(pass.parts);
  return true;
}

void Server::end_pass(const Pass& pass) {
  Engine& current = engine(pass);
  if (pass.logit_rows == 0) {
    current.drop_hidden();
  } else {
    logits_ = current.logits(pass.logit_rows);
    if (pass.is_draft) {
      draft_shares_.push_back(current.make(pass.logit_rows * current.model().vocabulary * 4));
      logits_.reset();
      { const Tensor guess = current.make(pass.logit_rows * 8); }
    } else if (config_.limits.beams > 1) {
      choose_beams(pass.logit_rows);
    } else {
      sample(pass.logit_rows);
    }
  }
  now_ns_ += current.take_duration_ns();
}

// A random choice: shares, exponential numbers to divide them by, the largest of each row. Guesses
// are compared with the draft model's shares first.
void Server::sample(std::uint64_t rows) {
  const std::uint64_t row_bytes = target_.model().vocabulary * 4;
  const Tensor shares = target_.make(rows * row_bytes);
  logits_.reset();
  if (!draft_shares_.empty()) {
    std::uint64_t guessed_bytes = 0;
    for (const Tensor& share : draft_shares_) guessed_bytes += share.size_bytes();
    const Tensor guessed = target_.make(guessed_bytes);
    draft_shares_.clear();
    const Tensor drawn = target_.make(guessed_bytes / config_.limits.draft_tokens);
    const Tensor accepted = target_.make(rows * 4);
    const Tensor recovered = target_.make(rows * 8);
    return;
  }
  const Tensor divisors = target_.make(rows * row_bytes);
  const Tensor chosen = target_.make(rows * 8);
}

// The best 2 x beams of each request over all beams' words.
void Server::choose_beams(std::uint64_t rows) {
  const std::uint64_t row_bytes = target_.model().vocabulary * 4;
  Tensor shares = target_.make(rows * row_bytes);
  logits_.reset();
  shares = target_.make(rows * row_bytes);  // the beams' scores are added
  const Tensor best = target_.make(2 * rows * 4);
  const Tensor indexes = target_.make(2 * rows * 8);
  shares.reset();
  const Tensor beams = target_.make(rows * 8);
  const Tensor words = target_.make(rows * 8);
}

void Server::commit() {
  batch_->sync();
  const Scheduler::Outcome& outcome = scheduler_.commit([this](const ServeRequest&) {
    std::uint64_t right = 0;
    while (right < config_.limits.draft_tokens && guesses_.below(100) < config_.accept_percent) {
      ++right;
    }
    return right;
  });
  for (const std::uint64_t arrival_ns : outcome.first_token_arrivals_ns) {
    batch_->mark(MarkClass::FirstToken, arrival_ns);
  }
  for (const ServeRequest& request : outcome.done) {
    batch_->mark(MarkClass::RequestDone, request.arrival_ns);
    for (Engine* engine : engines()) engine->release(request.slot);
    ++done_count_;
  }
}

std::unique_ptr<EventSource> make_serve(Parameters& parameters, std::uint64_t seed) {
  ModelShape model = read_model_shape(parameters);
  if (model.family == ModelFamily::Bert) return make_embedding_service(parameters, model, seed);
  parameters.refuse_if(model.family != ModelFamily::Gpt2 && !model.is_llama_like(), "model",
                       "a decoder of the families gpt2, llama and mixtral, or bert", model.name);
  refuse_trained_only(parameters, model);
  const std::uint64_t ranks = read_tensor_ranks(parameters, &model);
  const ServeConfig config = read_serve_config(parameters, model, ranks);
  return make_running<Server>(parameters, {.name = "serve-" + parameters.variant(), .seed = seed},
                              config);
}

}  // namespace

extern constinit const GeneratorEntry kServeGenerator{
    "serve", "serve:llama-3-8b,requests=64,arrivals=gamma,cv_percent=300,kv=paged",
    "a server under open-loop arrivals: continuous batching, chunked prompts, beam search, draft "
    "models; embeddings with BERT",
    make_serve};

}  // namespace allocmark

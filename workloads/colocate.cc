// Generator colocate: reinforcement learning with the trainer and the server that generates answers
// in one process on one device, taking turns. A cycle is: training steps; the server's weights wake
// and take over the trained ones, tensor by tensor through temporaries; the trainer sleeps (its
// parameters and optimizer state go to the host and their memory back); the cache is made; answers
// are generated; the server sleeps; the trainer wakes. The server's weights and cache may have a
// MemPool each, which ends with its sleep. Both are the generators train and serve, whose events
// are passed on with ids of their own.
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "workloads/open_workload.h"
#include "workloads/player.h"
#include "workloads/programs/model_options.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

enum class Sleepers : std::uint8_t { Both, Server, None };

struct ColocateConfig {
  std::string train, serve;  // workload texts
  std::uint64_t cycle_count = 3;
  std::uint64_t steps = 2;  // of training in each cycle
  Sleepers sleepers = Sleepers::Both;
  bool trims = true;               // empty_cache after each sleep
  bool has_pools = false;          // of the server's weights and cache
  std::uint64_t synced_bytes = 2;  // element size of the weights that the server takes over
};

class Colocation {
 public:
  using Config = ColocateConfig;
  Colocation(const ColocateConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config), seed_(seed), batch_(batch), trainer_(batch), server_(batch) {
    if (config_.has_pools) server_.use_pools();
  }

  Coroutine run();

 private:
  [[nodiscard]] bool has_trained();
  [[nodiscard]] bool has_weight();
  [[nodiscard]] std::vector<std::uint64_t> trained_sizes();  // bytes of each parameter
  void sleep_trainer();
  [[nodiscard]] bool serves();
  void end_serving();
  void mark(const char* phase) { batch_->mark(phase + std::to_string(cycle_ % 1000)); }
  void rest() {
    batch_->sync();
    if (config_.trims) batch_->trim();
  }

  ColocateConfig config_;
  std::uint64_t seed_;
  EventBatch* batch_;
  Player trainer_, server_;
  std::uint64_t cycle_ = 0;
  std::uint64_t steps_begun_ = 0;
};

Coroutine Colocation::run() {
  trainer_.open(config_.train, seed_);
  mark("train");
  while (true) {
    while (!has_trained()) {
      trainer_.play();
      co_await room_in(batch_);
    }
    mark("take_over");
    server_.open(config_.serve, seed_ + cycle_);
    while (has_weight()) {
      server_.play();
      co_await room_in(batch_);
    }
    server_.leave_pools();
    for (const std::uint64_t size_bytes : trained_sizes()) {
      // Each trained tensor is cast, copied to its place and let go.
      batch_->free(batch_->allocate({.size_bytes = size_bytes * config_.synced_bytes / 4,
                                     .tensor = TensorKind::Communication}));
      co_await room_in(batch_);
    }
    sleep_trainer();
    while (serves()) {
      server_.play();
      co_await room_in(batch_);
    }
    end_serving();
    if (++cycle_ == config_.cycle_count) break;
    mark("wake");
    trainer_.wake();
    co_await room_in(batch_);
  }
  batch_->mark("end");
  trainer_.give_all_back();
  server_.give_all_back();
}

// The next cycle's first step stays where it is until the trainer is awake again.
bool Colocation::has_trained() {
  const Event* next = trainer_.peek();
  const bool is_mark = next != nullptr && next->kind == EventKind::Mark;
  const bool is_step = is_mark && trainer_.label(*next).starts_with("step");
  if (is_step && steps_begun_ == (cycle_ + 1) * config_.steps) return true;
  if (is_step) ++steps_begun_;
  return false;
}

// The server's weights are all that it asks for before its pool.
bool Colocation::has_weight() {
  const Event* next = server_.peek();
  return next != nullptr &&
         (next->kind == EventKind::Mark || next->tensor == TensorKind::Parameter);
}

std::vector<std::uint64_t> Colocation::trained_sizes() {
  std::vector<std::uint64_t> sizes;
  for (const Player::Block* block : trainer_.blocks()) {
    if (block->tensor == TensorKind::Parameter) sizes.push_back(block->size_bytes);
  }
  return sizes;
}

bool Colocation::serves() {
  const Event* next = server_.peek();
  return next != nullptr && (next->kind != EventKind::Mark || server_.label(*next) != "end");
}

void Colocation::sleep_trainer() {
  mark("sleep");
  if (config_.sleepers == Sleepers::Both) {
    trainer_.put_to_sleep();
    rest();
  }
  mark("generate");
}

void Colocation::end_serving() {
  if (config_.sleepers == Sleepers::None) {
    server_.keep_residents();
  } else {
    server_.give_all_back();
    rest();
  }
}

std::unique_ptr<EventSource> make_colocate(Parameters& parameters, std::uint64_t seed) {
  const ModelShape model = read_model_shape(parameters);
  parameters.refuse_if(model.family != ModelFamily::Gpt2 && model.family != ModelFamily::Llama,
                       "model", "a model that generates, gpt2 or llama", model.name);
  refuse_trained_only(parameters, model);
  ColocateConfig config;
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t highest) {
    return parameters.number(key, preset, {1, highest});
  };
  config.cycle_count = number("cycles", 3, 1'000'000);
  config.steps = number("steps", 2, 1000);
  const std::uint64_t batch = number("batch", 4, 4096);
  const std::uint64_t sequence =
      number("seq", 512, model.positions > 0 ? model.positions : 131'072);
  const std::uint64_t requests = number("requests", 32, 1'000'000);
  const std::uint64_t generated = number("generated_max", 128, 100'000);
  const std::uint64_t context = number("context_max", 256, 100'000);
  const std::string pool =
      std::to_string(parameters.size_bytes("kv_memory", std::uint64_t{4} << 30, {1, 1ull << 50}));
  const std::uint64_t longest = parameters.number("longest_percent", 0, {0, 100});
  const bool checkpoints = parameters.choice("checkpoint", {"full", "none"}) == 0;
  config.sleepers = parameters.pick<Sleepers>("sleep", {"both", "server", "none"});
  config.has_pools = parameters.choice("pools", {"none", "each"}) == 1;
  config.trims = parameters.flag("empty_cache", true);
  const std::string shape = fmt::format(
      "{},layers={},hidden={},heads={},ffn={},vocabulary={}{}", model.name, model.layer_count,
      model.hidden, model.head_count, model.ffn, model.vocabulary,
      model.family == ModelFamily::Llama ? fmt::format(",kv_heads={}", model.kv_head_count) : "");
  // One step more than are run: train gives everything back before it ends.
  config.train =
      fmt::format("train:{},batch={},seq={},steps={},attention=fused,checkpoint={}", shape, batch,
                  sequence, config.cycle_count * config.steps + 1, checkpoints ? "full" : "none");
  config.serve = fmt::format(
      "serve:{},requests={},context_max={},generated_max={},kv_memory={},longest_percent={},"
      "per_minute=60000000",
      shape, requests, context, generated, pool, longest);
  // What is wrong in one of the two is said now, not in the middle of the trace.
  for (const std::string& text : {config.train, config.serve}) {
    static_cast<void>(open_workload(text, seed));
  }
  std::vector<ForbiddenKey> forbids;
  if (config.sleepers != Sleepers::None) {
    forbids.push_back({.key = "expandable_segments",
                       .why = "the server sleeps: the memory pool of vLLM's sleep mode refuses "
                              "it (vllm PR 14189, pytorch issue 147851)"});
  }
  return make_running<Colocation>(
      parameters,
      {.name = "colocate-" + parameters.variant(), .seed = seed, .forbids = std::move(forbids)},
      config);
}

}  // namespace

extern constinit const GeneratorEntry kColocateGenerator{
    "colocate", "colocate:llama-3-8b,layers=8,cycles=3,steps=2,requests=32,sleep=both",
    "reinforcement learning on one device: training, weights put to sleep, answers generated, "
    "weights woken",
    make_colocate};

}  // namespace allocmark

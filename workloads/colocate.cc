// Generator colocate: reinforcement learning with the trainer and the server that generates answers
// in one process on one device, taking turns. A cycle is: training steps; the server's weights wake
// and take over the trained ones, tensor by tensor through temporaries; the trainer sleeps (its
// parameters and optimizer state go to the host and their memory back); the cache's pool is made;
// answers are generated; the server sleeps; the trainer wakes. Both are the generators train and
// serve, whose events are passed on with ids of their own.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "workloads/open_workload.h"
#include "workloads/programs/model_options.h"
#include "workloads/trace/generated_source.h"
#include "workloads/trace/generator_entry.h"

namespace allocmark {
namespace {

enum class Sleepers : std::uint8_t { Both, Server, None };

struct ColocateConfig {
  std::string train, serve;  // workload texts
  std::uint64_t cycle_count = 3;
  std::uint64_t steps = 2;  // of training in each cycle
  Sleepers sleepers = Sleepers::Both;
  bool trims = true;               // empty_cache after each sleep
  std::uint64_t synced_bytes = 2;  // element size of the weights that the server takes over
};

// One of the two generators: its events in turn, and which of its blocks are live.
class Player {
 public:
  explicit Player(EventBatch* batch) : batch_(batch) {}

  void open(const std::string& text, std::uint64_t seed) {
    source_ = open_workload(text, seed);
    events_ = {};
    at_ = 0;
    is_over_ = false;
  }
  [[nodiscard]] bool is_open() const { return source_ != nullptr; }
  // The next event that is not played yet; null at the end.
  [[nodiscard]] const Event* peek() {
    if (at_ == events_.size() && !is_over_) {
      events_ = source_->next();
      at_ = 0;
      is_over_ = events_.empty();
    }
    return at_ < events_.size() ? &events_[at_] : nullptr;
  }
  [[nodiscard]] const std::string& label(const Event& mark) const {
    return source_->labels()[mark.id];
  }
  void skip() { ++at_; }
  void play();
  // Gives back what sleeps: parameters and optimizer state.
  void put_to_sleep();
  void wake();
  void give_all_back();
  // The source is left where it is; its weights and its pool stay for the next one, which asks for
  // the same.
  void keep_residents();
  struct Block {
    std::uint64_t id = 0;  // in the whole trace
    std::uint64_t size_bytes = 0;
    TensorKind tensor = TensorKind::Unknown;
    bool sleeps = false;
  };
  // In the order in which they were asked for.
  [[nodiscard]] std::vector<Block*> blocks();

 private:
  EventBatch* batch_;
  std::unique_ptr<EventSource> source_;
  std::span<const Event> events_;
  std::size_t at_ = 0;
  bool is_over_ = false;
  std::unordered_map<std::uint64_t, Block> blocks_;  // by the generator's own id
  std::deque<Block> residents_;                      // in the order in which they were asked for
};

void Player::play() {
  const Event event = events_[at_++];
  switch (event.kind) {
    case EventKind::Alloc: {
      if (!residents_.empty() && residents_.front().tensor == event.tensor) {
        blocks_[event.id] = residents_.front();
        residents_.pop_front();
        return;
      }
      const std::uint64_t id = batch_->allocate(
          {.size_bytes = event.size_bytes, .stream = event.stream, .tensor = event.tensor});
      blocks_[event.id] = {.id = id, .size_bytes = event.size_bytes, .tensor = event.tensor};
      return;
    }
    case EventKind::Free: {
      const auto found = blocks_.find(event.id);
      if (!found->second.sleeps) batch_->free(found->second.id);
      blocks_.erase(found);
      return;
    }
    case EventKind::Record:
      return batch_->record(blocks_.at(event.id).id, event.stream);
    case EventKind::Kernel:
      return batch_->kernel(event.duration_ns(), event.stream);
    case EventKind::Host:
      return batch_->host(event.duration_ns());
    case EventKind::Sync:
      return batch_->sync();
    case EventKind::Trim:
      return batch_->trim();
    case EventKind::PoolCreate:
    case EventKind::PoolBegin:
    case EventKind::PoolEnd:
    case EventKind::PoolRelease:
    case EventKind::PoolOnOom:
    case EventKind::PoolNoSplit:
    case EventKind::CaptureBegin:
    case EventKind::CaptureEnd:
    case EventKind::GraphReplay:
      return batch_->pool(event);
    case EventKind::Busy:
    case EventKind::Mark:
    case EventKind::HostAlloc:
    case EventKind::HostFree:
    case EventKind::HostRecord:
      return;  // the cycle has marks of its own, and nobody waits for single answers
  }
}

std::vector<Player::Block*> Player::blocks() {
  std::vector<std::pair<std::uint64_t, Block*>> by_id;
  for (auto& [own_id, block] : blocks_) by_id.emplace_back(own_id, &block);
  std::sort(by_id.begin(), by_id.end());
  std::vector<Block*> ordered;
  for (const auto& [own_id, block] : by_id) ordered.push_back(block);
  return ordered;
}

void Player::put_to_sleep() {
  for (Block* block : blocks()) {
    if (block->tensor != TensorKind::Parameter && block->tensor != TensorKind::OptimizerState) {
      continue;
    }
    batch_->free(block->id);
    block->sleeps = true;
  }
}

void Player::wake() {
  for (Block* block : blocks()) {
    if (!block->sleeps) continue;
    block->id = batch_->allocate({.size_bytes = block->size_bytes, .tensor = block->tensor});
    block->sleeps = false;
  }
}

void Player::give_all_back() {
  for (const Block* block : blocks()) {
    if (!block->sleeps) batch_->free(block->id);
  }
  blocks_.clear();
  for (const Block& block : residents_) batch_->free(block.id);
  residents_.clear();
}

void Player::keep_residents() {
  for (const Block* block : blocks()) {
    if (block->tensor == TensorKind::Parameter || block->tensor == TensorKind::KvCache) {
      residents_.push_back(*block);
    } else {
      batch_->free(block->id);
    }
  }
  blocks_.clear();
}

class Colocation {
 public:
  using Config = ColocateConfig;
  Colocation(const ColocateConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config), seed_(seed), batch_(batch), trainer_(batch), server_(batch) {}

  // A thousand events at most, or a sleep or wake of one of the two.
  bool advance();

 private:
  enum class Phase { Train, WakeServer, Sync, Sleep, Generate, Wake, End };

  void train();
  void wake_server();
  void sync_weights();
  void sleep_trainer();
  void generate();
  void mark(const char* phase) { batch_->mark(phase + std::to_string(cycle_ % 1000)); }
  void rest() {
    batch_->sync();
    if (config_.trims) batch_->trim();
  }

  static constexpr int kTurnEventCount = 1000;

  ColocateConfig config_;
  std::uint64_t seed_;
  EventBatch* batch_;
  Player trainer_, server_;
  Phase phase_ = Phase::Train;
  std::uint64_t cycle_ = 0;
  std::uint64_t steps_begun_ = 0;
  std::vector<std::uint64_t> synced_sizes_;  // of weights still to be taken over, the first last
};

bool Colocation::advance() {
  switch (phase_) {
    case Phase::Train:
      train();
      return true;
    case Phase::WakeServer:
      wake_server();
      return true;
    case Phase::Sync:
      sync_weights();
      return true;
    case Phase::Sleep:
      sleep_trainer();
      return true;
    case Phase::Generate:
      generate();
      return true;
    case Phase::Wake:
      mark("wake");
      trainer_.wake();
      phase_ = Phase::Train;
      return true;
    case Phase::End:
      batch_->mark("end");
      trainer_.give_all_back();
      server_.give_all_back();
      return false;
  }
  return false;
}

void Colocation::train() {
  if (!trainer_.is_open()) {
    trainer_.open(config_.train, seed_);
    mark("train");
  }
  for (int i = 0; i < kTurnEventCount; ++i) {
    const Event* next = trainer_.peek();
    const bool is_mark = next != nullptr && next->kind == EventKind::Mark;
    const bool is_step = is_mark && trainer_.label(*next).starts_with("step");
    // The next cycle's first step stays where it is until the trainer is awake again.
    if (is_step && steps_begun_ == (cycle_ + 1) * config_.steps) {
      phase_ = Phase::WakeServer;
      mark("take_over");
      server_.open(config_.serve, seed_ + cycle_);
      return;
    }
    if (is_step) ++steps_begun_;
    trainer_.play();
  }
}

// The server's weights are all that it asks for before its pool.
void Colocation::wake_server() {
  for (int i = 0; i < kTurnEventCount; ++i) {
    const Event* next = server_.peek();
    const bool is_weight =
        next != nullptr && (next->kind == EventKind::Mark || next->tensor == TensorKind::Parameter);
    if (is_weight) {
      server_.play();
      continue;
    }
    for (const Player::Block* block : trainer_.blocks()) {
      if (block->tensor == TensorKind::Parameter) synced_sizes_.push_back(block->size_bytes);
    }
    std::reverse(synced_sizes_.begin(), synced_sizes_.end());
    phase_ = Phase::Sync;
    return;
  }
}

// Each trained tensor is cast, copied to its place and let go.
void Colocation::sync_weights() {
  for (int i = 0; i < kTurnEventCount / 2 && !synced_sizes_.empty(); ++i) {
    const std::uint64_t id =
        batch_->allocate({.size_bytes = synced_sizes_.back() * config_.synced_bytes / 4,
                          .tensor = TensorKind::Communication});
    batch_->free(id);
    synced_sizes_.pop_back();
  }
  if (synced_sizes_.empty()) phase_ = Phase::Sleep;
}

void Colocation::sleep_trainer() {
  mark("sleep");
  if (config_.sleepers == Sleepers::Both) {
    trainer_.put_to_sleep();
    rest();
  }
  mark("generate");
  phase_ = Phase::Generate;
}

void Colocation::generate() {
  for (int i = 0; i < kTurnEventCount; ++i) {
    const Event* next = server_.peek();
    const bool is_end =
        next == nullptr || (next->kind == EventKind::Mark && server_.label(*next) == "end");
    if (!is_end) {
      server_.play();
      continue;
    }
    if (config_.sleepers == Sleepers::None) {
      server_.keep_residents();
    } else {
      server_.give_all_back();
      rest();
    }
    ++cycle_;
    phase_ = cycle_ == config_.cycle_count ? Phase::End : Phase::Wake;
    return;
  }
}

std::unique_ptr<EventSource> make_colocate(Parameters& parameters, std::uint64_t seed) {
  const ModelShape model = read_model_shape(parameters);
  if (model.family != ModelFamily::Gpt2 && model.family != ModelFamily::Llama) {
    parameters.refuse_value("model", "a model that generates, gpt2 or llama", model.name);
  }
  ColocateConfig config;
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t highest) {
    return parameters.number(key, {.preset = preset, .lowest = 1, .highest = highest});
  };
  config.cycle_count = number("cycles", 3, 1'000'000);
  config.steps = number("steps", 2, 1000);
  const std::uint64_t batch = number("batch", 4, 4096);
  const std::uint64_t sequence =
      number("seq", 512, model.positions > 0 ? model.positions : 131'072);
  const std::uint64_t requests = number("requests", 32, 1'000'000);
  const std::uint64_t generated = number("generated_max", 128, 100'000);
  const std::uint64_t context = number("context_max", 256, 100'000);
  const std::string pool = std::to_string(parameters.size_bytes(
      "kv_memory", {.preset = std::uint64_t{4} << 30, .lowest = 1, .highest = 1ull << 50}));
  const std::uint64_t longest =
      parameters.number("longest_percent", {.preset = 0, .lowest = 0, .highest = 100});
  const bool checkpoints = parameters.choice("checkpoint", {"full", "none"}) == 0;
  config.sleepers = static_cast<Sleepers>(parameters.choice("sleep", {"both", "server", "none"}));
  config.trims = parameters.number("empty_cache", {.preset = 1, .lowest = 0, .highest = 1}) == 1;
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
  return make_generated<Colocation>(
      parameters,
      {.name = "colocate-" + parameters.variant(), .seed = seed, .forbids = std::move(forbids)},
      config);
}

}  // namespace

extern const GeneratorEntry kColocateGenerator;
constinit const GeneratorEntry kColocateGenerator{
    "colocate", "colocate:llama-3-8b,layers=8,cycles=3,steps=2,requests=32,sleep=both",
    "reinforcement learning on one device: training, weights put to sleep, answers generated, "
    "weights woken",
    make_colocate};

}  // namespace allocmark

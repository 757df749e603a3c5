// Generator sleep: a server that sleeps. Weights are loaded, in a type of more bytes first if told
// so, and the cache is made, each in a MemPool or in common memory; decode graphs may be captured.
// To sleep, weights and cache go, and the cache of the allocator is emptied. To wake, all comes
// back. While the server sleeps another job may take memory, and keep it, so that the wake-up
// fails. The order of calls is that of scripts/measure/pools_memory.py, which ran on a card.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

constexpr std::uint32_t kCaptureStream = 1;  // of torch.cuda.graph()

struct SleepConfig {
  std::uint64_t layers = 0, hidden = 0, ffn = 0, vocabulary = 0;
  std::uint64_t batch = 0;    // rows of a decode step
  std::uint64_t context = 0;  // tokens of a row in the cache
  std::uint64_t cycles = 0;
  std::uint64_t load_factor = 0;  // bytes of a weight while it is loaded, over those it keeps
  bool has_pools = false;
  bool has_graphs = false;
  bool is_wake_converted = false;       // else weights come back as they were
  std::uint64_t workspace_bytes = 0;    // of the matrix library, for good
  std::uint64_t other_bytes = 0;        // that another job takes while the server sleeps
  std::uint64_t other_block_bytes = 0;  // in blocks of at most so many
  bool keeps_other = false;             // through the wake-up
};

class Sleep {
 public:
  using Config = SleepConfig;
  Sleep(const SleepConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config), batch_(batch) {}

  Coroutine run();

 private:
  using Blocks = std::vector<std::uint64_t>;

  std::uint64_t make(std::uint64_t size_bytes, TensorKind kind, std::uint32_t stream = 0) {
    return batch_->allocate({.size_bytes = size_bytes, .stream = stream, .tensor = kind});
  }
  void drop(Blocks* blocks) {
    for (const std::uint64_t block : *blocks) batch_->free(block);
    blocks->clear();
  }
  void pool_step(EventKind kind, std::uint64_t pool) { batch_->pool({.id = pool, .kind = kind}); }
  // As `with torch.cuda.use_mem_pool(pool)`; nothing without pools.
  void enter(std::uint64_t* pool);
  void leave(std::uint64_t pool);
  void end_pool(std::uint64_t* pool);
  void load_layer(std::uint64_t layer);
  void load_weight(std::uint64_t count);
  void make_cache();
  void capture(std::uint64_t rows);
  void decode(std::uint64_t rows, std::uint32_t stream, bool keeps);
  void layer(std::uint64_t rows, std::uint32_t stream, std::uint64_t* x);
  void fall_asleep();
  void end();

  SleepConfig config_;
  EventBatch* batch_;
  Blocks weights_, cache_, outputs_, other_, workspaces_;
  std::uint64_t weights_pool_ = 0, cache_pool_ = 0, graph_pool_ = 0;  // 0: none
  std::uint64_t pool_count_ = 0;
  std::uint64_t cycle_ = 0;  // 0: before the first sleep
};

void Sleep::enter(std::uint64_t* pool) {
  if (!config_.has_pools) return;
  if (*pool == 0) {
    *pool = ++pool_count_;
    pool_step(EventKind::PoolCreate, *pool);
  }
  batch_->pool({.id = *pool, .size_bytes = 1, .kind = EventKind::PoolBegin});
}

void Sleep::leave(std::uint64_t pool) {
  if (pool == 0) return;
  pool_step(EventKind::PoolEnd, pool);
  pool_step(EventKind::PoolRelease, pool);
}

// The MemPool is deleted.
void Sleep::end_pool(std::uint64_t* pool) {
  if (*pool == 0) return;
  pool_step(EventKind::PoolRelease, *pool);
  pool_step(EventKind::Trim, *pool);
  *pool = 0;
}

Coroutine Sleep::run() {
  while (true) {
    cycle_ == 0 ? batch_->mark("load") : batch_->mark("wake", cycle_);
    for (std::uint64_t layer = 0; layer <= config_.layers; ++layer) {
      load_layer(layer);
      co_await room_in(batch_);
    }
    make_cache();
    co_await room_in(batch_);
    if (config_.has_graphs && cycle_ == 0) {
      for (const std::uint64_t divisor : {1, 2, 8, 64})
        if (config_.batch / divisor > 0) capture(config_.batch / divisor);
      co_await room_in(batch_);
    }
    batch_->mark("serve", cycle_);
    decode(config_.batch, 0, false);
    if (cycle_++ == config_.cycles) break;
    co_await room_in(batch_);
    fall_asleep();
    co_await room_in(batch_);
  }
  end();
}

// The embedding, then the four weights of a layer at a time.
void Sleep::load_layer(std::uint64_t layer) {
  enter(&weights_pool_);
  const std::uint64_t hidden = config_.hidden;
  if (layer == 0) {
    load_weight(config_.vocabulary * hidden);
  } else {
    for (const std::uint64_t count :
         {3 * hidden * hidden, hidden * hidden, 2 * config_.ffn * hidden, config_.ffn * hidden})
      load_weight(count);
  }
  leave(weights_pool_);
}

void Sleep::load_weight(std::uint64_t count) {
  const std::uint64_t size_bytes = 2 * count;
  const bool converts = config_.load_factor > 1 && (cycle_ == 0 || config_.is_wake_converted);
  const std::uint64_t loaded =
      converts ? make(size_bytes * config_.load_factor, TensorKind::Workspace) : 0;
  weights_.push_back(make(size_bytes, TensorKind::Parameter));
  if (converts) batch_->free(loaded);
}

void Sleep::make_cache() {
  enter(&cache_pool_);
  for (std::uint64_t i = 0; i < config_.layers; ++i) {
    cache_.push_back(
        make(2 * 2 * config_.batch * config_.context * config_.hidden, TensorKind::KvCache));
  }
  leave(cache_pool_);
}

// A run without a graph, then the same run captured. Its output stays.
void Sleep::capture(std::uint64_t rows) {
  decode(rows, 0, false);
  batch_->sync();
  batch_->trim();
  if (graph_pool_ == 0) graph_pool_ = ++pool_count_;
  batch_->pool({.id = graph_pool_, .stream = kCaptureStream, .kind = EventKind::PoolBegin});
  batch_->pool({.id = graph_pool_, .stream = kCaptureStream, .kind = EventKind::CaptureBegin});
  decode(rows, kCaptureStream, true);
  batch_->pool({.id = graph_pool_, .stream = kCaptureStream, .kind = EventKind::CaptureEnd});
  pool_step(EventKind::PoolEnd, graph_pool_);
}

// One token for each row. The first run on a stream makes the matrix library's work space.
void Sleep::decode(std::uint64_t rows, std::uint32_t stream, bool keeps) {
  std::uint64_t x = make(rows * config_.hidden * 2, TensorKind::Activation, stream);
  for (std::uint64_t i = 0; i < config_.layers; ++i) {
    layer(rows, stream, &x);
    if (workspaces_.size() > stream || config_.workspace_bytes == 0) continue;
    workspaces_.push_back(make(config_.workspace_bytes, TensorKind::Workspace, stream));
  }
  const std::uint64_t logits_count = rows * config_.vocabulary;
  const std::uint64_t logits = make(logits_count * 2, TensorKind::Activation, stream);
  const std::uint64_t whole = make(logits_count * 4, TensorKind::Activation, stream);
  batch_->free(logits);
  const std::uint64_t shares = make(logits_count * 4, TensorKind::Activation, stream);
  batch_->free(whole);
  batch_->free(x);
  if (keeps) {
    outputs_.push_back(shares);
  } else {
    batch_->free(shares);
  }
}

void Sleep::layer(std::uint64_t rows, std::uint32_t stream, std::uint64_t* x) {
  const auto tensor = [&](std::uint64_t columns) {
    return make(rows * columns * 2, TensorKind::Activation, stream);
  };
  const auto replace = [&](std::uint64_t* old) {
    const std::uint64_t sum = tensor(config_.hidden);
    batch_->free(*old);
    *old = sum;
  };
  std::uint64_t normed = tensor(config_.hidden);
  const std::uint64_t qkv = tensor(3 * config_.hidden);
  const std::uint64_t mixed = tensor(config_.hidden);
  const std::uint64_t out = tensor(config_.hidden);
  replace(x);
  batch_->free(out);
  replace(&normed);
  const std::uint64_t gate_and_value = tensor(2 * config_.ffn);
  const std::uint64_t gated = tensor(config_.ffn);
  const std::uint64_t product = tensor(config_.ffn);
  const std::uint64_t down = tensor(config_.hidden);
  batch_->free(gated);
  batch_->free(product);
  replace(x);
  for (const std::uint64_t block : {down, gate_and_value, mixed, qkv, normed}) batch_->free(block);
}

void Sleep::fall_asleep() {
  batch_->sync();
  drop(&weights_);
  drop(&cache_);
  end_pool(&weights_pool_);
  end_pool(&cache_pool_);
  batch_->trim();
  batch_->mark("sleep", cycle_);
  std::uint64_t left_bytes = config_.other_bytes;
  while (left_bytes > 0) {
    const std::uint64_t size_bytes = std::min(left_bytes, config_.other_block_bytes);
    other_.push_back(make(size_bytes, TensorKind::Unknown));
    left_bytes -= size_bytes;
  }
  if (config_.keeps_other) return;
  drop(&other_);
  if (config_.other_bytes > 0) batch_->trim();
}

void Sleep::end() {
  batch_->mark("end");
  for (Blocks* blocks : {&weights_, &cache_, &outputs_, &other_, &workspaces_}) drop(blocks);
  end_pool(&weights_pool_);
  end_pool(&cache_pool_);
  if (graph_pool_ == 0) return;
  // One use of each graph.
  for (const std::uint64_t divisor : {1, 2, 8, 64})
    if (config_.batch / divisor > 0) pool_step(EventKind::PoolRelease, graph_pool_);
}

std::unique_ptr<EventSource> make_sleep(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  const auto number = [&](const char* key, std::uint64_t preset, std::uint64_t lowest,
                          std::uint64_t highest) {
    return parameters.number(key, preset, {lowest, highest});
  };
  const auto size_bytes = [&](const char* key, std::uint64_t preset, std::uint64_t lowest) {
    return parameters.size_bytes(key, preset, {lowest, std::uint64_t{1} << 40});
  };
  SleepConfig config{.layers = number("layers", 16, 1, 1024),
                     .hidden = number("hidden", 2048, 1, 1 << 16),
                     .ffn = number("ffn", 5632, 1, 1 << 18),
                     .vocabulary = number("vocabulary", 32000, 1, 1 << 20),
                     .batch = number("batch", 64, 1, 4096),
                     .context = number("context", 512, 1, 1 << 20),
                     .cycles = number("cycles", 3, 0, 1000)};
  config.load_factor = number("load_factor", 2, 1, 8);
  config.is_wake_converted = parameters.choice("wake", {"plain", "converted"}) == 1;
  config.has_pools = parameters.choice("pools", {"each", "none"}) == 0;
  config.has_graphs = number("graphs", 0, 0, 1) == 1;
  config.workspace_bytes = size_bytes("workspace_bytes", std::uint64_t{32} << 20, 0);
  config.other_bytes = size_bytes("other_bytes", 0, 0);
  if (config.other_bytes > 0) {
    config.other_block_bytes = size_bytes("other_block_bytes", std::uint64_t{256} << 20, 1 << 20);
    config.keeps_other = parameters.choice("other", {"returned", "kept"}) == 1;
  }
  return make_running<Sleep>(
      parameters,
      {.name = "sleep", .seed = seed, .stream_count = config.has_graphs ? kCaptureStream + 1 : 1},
      config);
}

}  // namespace

extern constinit const GeneratorEntry kSleepGenerator{
    "sleep", "sleep:layers=32,hidden=4096,ffn=14336,graphs=1,cycles=3",
    "a server that sleeps and wakes: weights and cache in a MemPool each, loaded through a wider "
    "type; a job beside it may keep what it took",
    make_sleep};

}  // namespace allocmark

// The other kinds of generator offload: batches of a data loader, a server's KV cache on the host,
// and weights that are streamed to the device layer by layer.
#include <algorithm>
#include <deque>
#include <string>
#include <utility>

#include "base/random.h"
#include "workloads/programs/offload.h"
#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct PinningLoaderConfig {
  std::uint64_t batch = 0;  // items of a batch
  std::uint64_t item_bytes = 0;
  std::uint64_t label_bytes = 0;     // of an item
  std::uint64_t spread_percent = 0;  // how far a batch's items may be from item_bytes
  std::uint64_t depth = 0;           // batches that wait, pinned
  std::uint64_t batch_count = 0;
  std::uint64_t step_ns = 0;
  bool syncs = false;  // the loop waits for each step
  std::uint64_t bus_gbs = 0;
};

// torch.utils.data.DataLoader(pin_memory=True): a thread pins what the workers made. The next batch
// is there before the loop lets go of the last one.
class PinningLoader {
 public:
  using Config = PinningLoaderConfig;
  PinningLoader(const PinningLoaderConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config), random_(seed), batch_(batch), copies_(config.bus_gbs, batch) {}

  Coroutine run();

 private:
  struct Batch {
    std::uint64_t data_bytes = 0;
    std::uint64_t data = 0, labels = 0;  // pinned blocks
  };
  void pin_one();
  void step();
  void drop(const Batch& batch) {
    batch_->host_free(batch.data);
    batch_->host_free(batch.labels);
  }

  PinningLoaderConfig config_;
  Random random_;
  EventBatch* batch_;
  HostCopies copies_;
  std::deque<Batch> waiting_;
  std::vector<Batch> current_;            // that the loop's variable holds: one, or none yet
  std::vector<std::uint64_t> on_device_;  // its blocks there
  std::uint64_t pinned_count_ = 0;
};

void PinningLoader::pin_one() {
  if (pinned_count_++ >= config_.batch_count) return;
  const std::uint64_t percent =
      random_.between(100 - config_.spread_percent, 100 + config_.spread_percent);
  const std::uint64_t data_bytes =
      std::max<std::uint64_t>(1, config_.batch * config_.item_bytes / 100 * percent);
  Batch made{.data_bytes = data_bytes};
  made.data = batch_->host_allocate(data_bytes);
  made.labels = batch_->host_allocate(config_.batch * config_.label_bytes);
  waiting_.push_back(made);
}

void PinningLoader::step() {
  while (pinned_count_ < std::min(config_.depth, config_.batch_count)) pin_one();
  const Batch next = waiting_.front();
  waiting_.pop_front();
  pin_one();
  for (const Batch& last : std::exchange(current_, {next})) drop(last);
  const std::vector<std::uint64_t> last_on_device = std::exchange(on_device_, {});
  on_device_.push_back(batch_->allocate({.size_bytes = next.data_bytes}));
  copies_.copy(next.data, next.data_bytes, 0);
  on_device_.push_back(batch_->allocate({.size_bytes = config_.batch * config_.label_bytes}));
  copies_.copy(next.labels, config_.batch * config_.label_bytes, 0);
  for (const std::uint64_t block : last_on_device) batch_->free(block);
  batch_->kernel(config_.step_ns, 0);
  if (config_.syncs) batch_->sync();
}

Coroutine PinningLoader::run() {
  for (std::uint64_t i = 0; i < config_.batch_count; ++i) {
    batch_->mark("step", i);
    step();
    co_await room_in(batch_);
  }
  batch_->mark("end");
  batch_->sync();
  for (const Batch& last : current_) drop(last);
  for (const std::uint64_t block : on_device_) batch_->free(block);
}

// Of a prompt, so that a request's events are few.
constexpr std::size_t kChunksAtOnce = 512;

struct KvCacheConfig {
  std::uint64_t buffer_count = 0;  // whole buffers, made at the start; 0: pieces
  std::uint64_t buffer_bytes = 0;
  std::uint64_t chunk_tokens = 0;
  std::uint64_t token_bytes = 0;   // keys and values of one token in all layers
  bool keeps_rest = false;         // the last tokens of a prompt, fewer than a chunk
  std::uint64_t budget_bytes = 0;  // asked for at once, at most
  std::uint64_t request_count = 0;
  std::uint64_t tokens_max = 0;   // of a prompt
  std::uint64_t hit_percent = 0;  // requests whose prefix is read back
  std::uint64_t bus_gbs = 0;
};

// Chunks of prompts go to the host, the oldest ones make room, and some prompts are read back.
// With whole buffers the cache cuts them itself: PyTorch sees the buffers alone.
class HostKvCache {
 public:
  using Config = KvCacheConfig;
  HostKvCache(const KvCacheConfig& config, std::uint64_t seed, EventBatch* batch)
      : config_(config), random_(seed), batch_(batch), copies_(config.bus_gbs, batch) {}

  Coroutine run();

 private:
  struct Chunk {
    std::uint64_t block = 0, size_bytes = 0;
  };
  void serve_from_buffers();
  void serve();
  void store(std::uint64_t size_bytes);

  KvCacheConfig config_;
  Random random_;
  EventBatch* batch_;
  HostCopies copies_;
  std::deque<Chunk> chunks_;  // the oldest first
  std::uint64_t live_bytes_ = 0;
};

Coroutine HostKvCache::run() {
  batch_->mark("setup");
  for (std::uint64_t i = 0; i < config_.buffer_count; ++i)
    chunks_.push_back(
        {batch_->host_allocate(config_.buffer_bytes, TensorKind::KvCache), config_.buffer_bytes});
  co_await room_in(batch_);
  for (std::uint64_t i = 0; i < config_.request_count; ++i) {
    batch_->mark("request", i);
    config_.buffer_count > 0 ? serve_from_buffers() : serve();
    co_await room_in(batch_);
  }
  batch_->mark("end");
  batch_->sync();
  for (const Chunk& chunk : chunks_) {
    batch_->host_free(chunk.block);
    co_await room_in(batch_);
  }
}

void HostKvCache::serve_from_buffers() {
  for (const Chunk& buffer : chunks_)
    copies_.copy(buffer.block, std::min<std::uint64_t>(buffer.size_bytes, 64 << 20), kCopyStream);
}

void HostKvCache::serve() {
  const std::uint64_t tokens = random_.between(1, config_.tokens_max);
  const std::uint64_t on_device =
      batch_->allocate({.size_bytes = tokens * config_.token_bytes, .tensor = TensorKind::KvCache});
  if (random_.below(100) < config_.hit_percent) {
    const std::size_t count = std::min<std::size_t>(chunks_.size(), tokens / config_.chunk_tokens);
    for (std::size_t i = chunks_.size() - count; i < chunks_.size(); ++i)
      copies_.copy(chunks_[i].block, chunks_[i].size_bytes, kCopyStream);
  }
  for (std::uint64_t left = tokens; left > 0;) {
    const std::uint64_t part = std::min(left, config_.chunk_tokens);
    left -= part;
    if (part == config_.chunk_tokens || config_.keeps_rest) store(part * config_.token_bytes);
  }
  batch_->sync();
  batch_->free(on_device);
}

void HostKvCache::store(std::uint64_t size_bytes) {
  while (!chunks_.empty() && live_bytes_ + size_bytes > config_.budget_bytes) {
    batch_->host_free(chunks_.front().block);
    live_bytes_ -= chunks_.front().size_bytes;
    chunks_.pop_front();
  }
  const std::uint64_t block = batch_->host_allocate(size_bytes, TensorKind::KvCache);
  chunks_.push_back({block, size_bytes});
  live_bytes_ += size_bytes;
  copies_.copy(block, size_bytes, kCopyStream);
}

struct StreamedWeightsConfig {
  LayerTensors layers_bytes;  // of each tensor, by layer
  std::uint64_t pass_count = 0;
  std::uint64_t compute_ns = 0;  // of a layer
  std::uint64_t bus_gbs = 0;
};

// StreamedWeights stay pinned on the host; a layer comes to the device while the one before
// computes.
class StreamedWeights {
 public:
  using Config = StreamedWeightsConfig;
  StreamedWeights(const StreamedWeightsConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config), batch_(batch), copies_(config.bus_gbs, batch) {}

  Coroutine run();

 private:
  struct Tensor {
    std::uint64_t block = 0, size_bytes = 0;
  };
  void pin_layer(const std::vector<std::uint64_t>& sizes_bytes);
  void stream_layer(const std::vector<Tensor>& layer);
  void drop_layer() {
    for (const std::uint64_t block : on_device_) batch_->free(block);
    on_device_.clear();
  }

  StreamedWeightsConfig config_;
  EventBatch* batch_;
  HostCopies copies_;
  std::vector<std::vector<Tensor>> pinned_;
  std::vector<std::uint64_t> on_device_;  // blocks of the layer that computes
};

Coroutine StreamedWeights::run() {
  batch_->mark("setup");
  for (const std::vector<std::uint64_t>& sizes_bytes : config_.layers_bytes) {
    pin_layer(sizes_bytes);
    co_await room_in(batch_);
  }
  for (std::uint64_t pass = 0; pass < config_.pass_count; ++pass) {
    batch_->mark("pass", pass);
    for (const std::vector<Tensor>& layer : pinned_) {
      stream_layer(layer);
      co_await room_in(batch_);
    }
  }
  batch_->mark("end");
  batch_->sync();
  drop_layer();
  for (const std::vector<Tensor>& layer : pinned_) {
    for (const Tensor& tensor : layer) batch_->host_free(tensor.block);
    co_await room_in(batch_);
  }
}

void StreamedWeights::pin_layer(const std::vector<std::uint64_t>& sizes_bytes) {
  std::vector<Tensor>& layer = pinned_.emplace_back();
  for (const std::uint64_t size_bytes : sizes_bytes)
    layer.push_back({batch_->host_allocate(size_bytes, TensorKind::Parameter), size_bytes});
}

void StreamedWeights::stream_layer(const std::vector<Tensor>& layer) {
  std::vector<std::uint64_t> next;
  for (const Tensor& tensor : layer) {
    next.push_back(batch_->allocate(
        {.size_bytes = tensor.size_bytes, .stream = kCopyStream, .tensor = TensorKind::Parameter}));
    copies_.copy(tensor.block, tensor.size_bytes, kCopyStream);
  }
  drop_layer();
  on_device_ = std::move(next);
  for (const std::uint64_t block : on_device_) batch_->record(block, 0);
  batch_->kernel(config_.compute_ns, 0);
}

// `tensor_mib=96/36/9,tensor_count=3/3/2`: what each layer has, or the tensors of a model.
LayerTensors read_layers_bytes(Parameters& parameters) {
  if (parameters.given("tensor_mib") == nullptr) {
    LayerTensors layers = read_layer_tensors(parameters);
    for (std::vector<std::uint64_t>& layer : layers)
      for (std::uint64_t& size : layer) size *= 2;
    return layers;
  }
  const std::vector<std::uint64_t> sizes_mib = parameters.numbers("tensor_mib", 1, {1, 1 << 20});
  const std::vector<std::uint64_t> counts = parameters.numbers("tensor_count", 1, {1, 1024});
  parameters.refuse_if(counts.size() != sizes_mib.size(), "tensor_count",
                       "as many numbers as tensor_mib has: " + std::to_string(sizes_mib.size()),
                       counts.size());
  std::uint64_t tensor_count = 0;
  for (const std::uint64_t count : counts) tensor_count += count;
  parameters.refuse_if(tensor_count > 1000, "tensor_count", "at most 1000 tensors in a layer",
                       tensor_count);
  const std::uint64_t layer_count = parameters.number("layers", 1, {1, 1024});
  std::vector<std::uint64_t> layer;
  for (std::size_t i = 0; i < counts.size(); ++i)
    layer.insert(layer.end(), counts[i], sizes_mib[i] << 20);
  return LayerTensors(layer_count, layer);
}

constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 42;

}  // namespace

std::unique_ptr<EventSource> make_offload_loader(Parameters& parameters, std::uint64_t seed) {
  PinningLoaderConfig config;
  config.batch = parameters.number("batch", 256, {1, 1 << 20});
  config.item_bytes = parameters.size_bytes("item_bytes", 602112, {1, 1 << 30});
  config.label_bytes = parameters.size_bytes("label_bytes", 8, {1, 1 << 20});
  config.spread_percent = parameters.number("spread_percent", 0, {0, 100});
  const std::uint64_t workers = parameters.number("workers", 4, {1, 64});
  config.depth = workers * parameters.number("prefetch", 2, {1, 16});
  config.batch_count = parameters.number("batches", 50, {1, 1'000'000});
  config.step_ns = parameters.number("step_us", 20'000, {1, 60'000'000}) * 1000;
  config.syncs = parameters.flag("sync", true);
  config.bus_gbs = read_bus_gbs(parameters);
  return make_running<PinningLoader>(parameters, {.name = "offload", .seed = seed}, config);
}

std::unique_ptr<EventSource> make_offload_kv_cache(Parameters& parameters, std::uint64_t seed) {
  KvCacheConfig config;
  if (parameters.choice("layout", {"buffers", "chunks"}) == 0) {
    config.buffer_count = parameters.number("buffers", 1, {1, 1024});
    config.buffer_bytes =
        parameters.size_bytes("buffer_bytes", std::uint64_t{5} << 30, {1, kSizeMax});
    config.request_count = parameters.number("requests", 4, {0, 1'000'000});
  } else {
    config.chunk_tokens = parameters.number("chunk_tokens", 256, {1, 1 << 20});
    config.token_bytes = parameters.size_bytes("token_bytes", 131'072, {1, 1 << 30});
    config.keeps_rest = parameters.flag("rest", true);
    config.budget_bytes =
        parameters.size_bytes("budget_bytes", std::uint64_t{5} << 30, {1, kSizeMax});
    config.request_count = parameters.number("requests", 200, {1, 1'000'000});
    config.tokens_max = parameters.number("tokens_max", 4096, {1, 1 << 20});
    parameters.refuse_if(config.tokens_max > kChunksAtOnce * config.chunk_tokens, "tokens_max",
                         "at most " + std::to_string(kChunksAtOnce) + " times chunk_tokens",
                         config.tokens_max);
    config.hit_percent = parameters.number("hit_percent", 30, {0, 100});
  }
  config.bus_gbs = read_bus_gbs(parameters);
  return make_running<HostKvCache>(parameters, {.name = "offload", .seed = seed, .stream_count = 2},
                                   config);
}

std::unique_ptr<EventSource> make_offload_weights(Parameters& parameters, std::uint64_t seed) {
  StreamedWeightsConfig config;
  config.layers_bytes = read_layers_bytes(parameters);
  config.pass_count = parameters.number("passes", 2, {0, 100'000});
  config.compute_ns = parameters.number("layer_us", 2000, {1, 1'000'000}) * 1000;
  config.bus_gbs = read_bus_gbs(parameters);
  return make_running<StreamedWeights>(
      parameters, {.name = "offload", .seed = seed, .stream_count = 2}, std::move(config));
}

}  // namespace allocmark

// Generator load: a server starts. Weights are loaded as the file has them, then each is converted
// to the layout that its kernel wants, as vLLM does after loading quantized experts
// (https://github.com/vllm-project/vllm/pull/41268: 530 and 270 MiB in turn), and a pool for the
// cache takes what it can. Large converted weights leave holes that no later weight fits.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "workloads/trace/coroutine_program.h"

namespace allocmark {
namespace {

struct LoadConfig {
  std::uint64_t layer_count = 36;
  std::uint64_t first_bytes = std::uint64_t{530} << 20;   // of a layer's first large weight
  std::uint64_t second_bytes = std::uint64_t{270} << 20;  // of its second one
  std::uint64_t other_bytes = std::uint64_t{16} << 20;    // of what is not converted
  std::uint64_t copy_count = 1;  // temporary copies of a weight while it is converted
  bool converts = true;
  bool converts_while_loading = false;  // else all weights are loaded first
  bool trims = true;                    // empty_cache before the pool
  std::uint64_t pool_bytes = 0;         // of the cache's pool in all layers; 0: none
  std::uint64_t profile_bytes = 0;      // of a forward pass that is only measured; 0: none
  std::uint64_t host_bytes = 0;         // of the host, in all layers, until the server ends
};

class Load {
 public:
  using Config = LoadConfig;
  Load(const LoadConfig& config, std::uint64_t /*seed*/, EventBatch* batch)
      : config_(config), batch_(batch) {}

  Coroutine run();

 private:
  [[nodiscard]] std::uint64_t weight(std::uint64_t size_bytes) {
    return batch_->allocate({.size_bytes = size_bytes, .tensor = TensorKind::Parameter});
  }
  void load_layer();
  void convert(std::uint64_t* block, std::uint64_t size_bytes);
  void convert_layer(std::uint64_t layer);
  void profile();
  void make_pool();
  void unload();

  LoadConfig config_;
  EventBatch* batch_;
  std::vector<std::uint64_t> first_, second_, others_, pool_, host_;
};

Coroutine Load::run() {
  batch_->mark("load");
  for (std::uint64_t layer = 0; layer < config_.layer_count; ++layer) {
    load_layer();
    if (config_.converts_while_loading) convert_layer(layer);
    co_await room_in(batch_);
  }
  if (config_.converts && !config_.converts_while_loading) {
    batch_->mark("convert");
    for (std::uint64_t layer = 0; layer < config_.layer_count; ++layer) {
      convert_layer(layer);
      co_await room_in(batch_);
    }
  }
  profile();
  co_await room_in(batch_);
  make_pool();
  co_await room_in(batch_);
  unload();
}

void Load::load_layer() {
  if (config_.host_bytes > 0)
    host_.push_back(batch_->host_allocate(config_.host_bytes / config_.layer_count));
  first_.push_back(weight(config_.first_bytes));
  second_.push_back(weight(config_.second_bytes));
  if (config_.other_bytes > 0) others_.push_back(weight(config_.other_bytes));
}

// Each copy is made of the one before; the last becomes the weight, and the loaded one goes.
void Load::convert(std::uint64_t* block, std::uint64_t size_bytes) {
  std::vector<std::uint64_t> copies;
  for (std::uint64_t i = 0; i < config_.copy_count; ++i) {
    copies.push_back(batch_->allocate({.size_bytes = size_bytes, .tensor = TensorKind::Workspace}));
  }
  const std::uint64_t converted = weight(size_bytes);
  for (const std::uint64_t copy : copies) batch_->free(copy);
  batch_->free(*block);
  *block = converted;
}

void Load::convert_layer(std::uint64_t layer) {
  convert(&first_[layer], config_.first_bytes);
  convert(&second_[layer], config_.second_bytes);
}

// A layer's activations at a time, all of them live at the end.
void Load::profile() {
  if (config_.profile_bytes == 0) return;
  batch_->mark("profile");
  std::vector<std::uint64_t> activations;
  for (std::uint64_t i = 0; i < config_.layer_count; ++i) {
    activations.push_back(
        batch_->allocate({.size_bytes = config_.profile_bytes / config_.layer_count,
                          .tensor = TensorKind::Activation}));
  }
  for (const std::uint64_t activation : activations) batch_->free(activation);
}

void Load::make_pool() {
  batch_->sync();
  if (config_.trims) batch_->trim();
  batch_->mark("pool");
  if (config_.pool_bytes == 0) return;
  for (std::uint64_t i = 0; i < config_.layer_count; ++i) {
    pool_.push_back(batch_->allocate(
        {.size_bytes = config_.pool_bytes / config_.layer_count, .tensor = TensorKind::KvCache}));
  }
}

void Load::unload() {
  batch_->mark("end");
  for (const std::vector<std::uint64_t>* blocks : {&pool_, &first_, &second_, &others_}) {
    for (const std::uint64_t block : *blocks) batch_->free(block);
  }
  for (const std::uint64_t block : host_) batch_->host_free(block);
}

std::unique_ptr<EventSource> make_load(Parameters& parameters, std::uint64_t seed) {
  parameters.refuse_variant();
  LoadConfig config;
  const auto size_bytes = [&](const char* key, std::uint64_t preset, std::uint64_t lowest) {
    return parameters.size_bytes(key, preset, {lowest, std::uint64_t{1} << 40});
  };
  config.layer_count = parameters.number("layers", 36, {1, 1024});
  config.first_bytes = size_bytes("first_bytes", config.first_bytes, 1);
  config.second_bytes = size_bytes("second_bytes", config.second_bytes, 1);
  config.other_bytes = size_bytes("other_bytes", config.other_bytes, 0);
  config.copy_count = parameters.number("copies", 1, {0, 8});
  const std::size_t convert = parameters.choice("convert", {"after", "while", "none"});
  config.converts = convert != 2;
  config.converts_while_loading = convert == 1;
  config.trims = parameters.flag("empty_cache", true);
  const auto of_layers = [&](const char* key) {
    const std::uint64_t bytes = size_bytes(key, 0, 0);
    parameters.refuse_if(
        bytes > 0 && bytes < config.layer_count, key,
        "0 or at least a byte per layer, layers = " + std::to_string(config.layer_count), bytes);
    return bytes;
  };
  config.pool_bytes = of_layers("pool_bytes");
  config.profile_bytes = of_layers("profile_bytes");
  config.host_bytes = of_layers("host_bytes");
  return make_running<Load>(parameters, {.name = "load", .seed = seed}, config);
}

}  // namespace

extern constinit const GeneratorEntry kLoadGenerator{
    "load", "load:layers=64,first_bytes=530MiB,second_bytes=270MiB,copies=2,pool_bytes=16GiB",
    "weights are loaded and converted one by one, then a pool takes what it can: holes that no "
    "later weight fits",
    make_load};

}  // namespace allocmark
